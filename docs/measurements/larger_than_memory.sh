#!/bin/sh
# Filters an image in chunks on the CPU and on all GPUs, from and to .npy and Zarr, and compares the results byte for
# byte. It needs neither Python nor Rust, and on the disk some seven times the bytes of the image.
#
#     larger_than_memory.sh HOST FOLDER [SIDE] [MEMORY]
#
# With 32768 as SIDE and a folder in memory (/dev/shm) it takes about a minute on 16 cores and one GPU.
set -eu

host=$1
folder=$2
side=${3:-32768}
memory=${4:-16G}
mkdir -p "$folder"
cd "$folder"
rm -rf a.zarr b.zarr
rm -f a.npy cpu.npy gpu.npy zarr.npy

# A header of 128 bytes, then noise: values of u16 in C order.
text="{'descr': '<u2', 'fortran_order': False, 'shape': ($side, $side), }"
printf '\223NUMPY\001\000\166\000%-117s\n' "$text" > a.npy
head -c $((2 * side * side)) /dev/urandom >> a.npy

run() {
    echo "\$ host filter $*"
    "$host" filter "$@" --memory "$memory"
}

"$host" info
run a.npy -o cpu.npy --gaussian 3 --device cpu
run a.npy -o gpu.npy --gaussian 3 --device cuda:all
cmp cpu.npy gpu.npy
run a.npy -o gpu.npy --gaussian 3 --device cuda:0 --overwrite
cmp cpu.npy gpu.npy
run a.npy -o a.zarr --identity --chunk 4096 --device cpu
run a.zarr -o b.zarr --gaussian 3 --device cuda:all
run b.zarr -o zarr.npy --identity --device cpu
cmp cpu.npy zarr.npy
echo "all results are the same, byte for byte"

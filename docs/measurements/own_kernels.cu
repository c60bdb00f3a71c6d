// The kernels of `examples/own-kernels` in CUDA C++: the same algorithms, launches and parameters.
//
// `own_kernels.py` compiles this file with NVRTC and times each kernel beside the one in Rust.

typedef unsigned char byte;
typedef unsigned int uint;

extern "C" __global__ void saxpy(float a, const float* __restrict__ x, float* __restrict__ y, uint length) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length) y[i] = fmaf(a, x[i], y[i]);
}

/// Sorts two values. The median network of `median_3x3` is Smith's (1996).
__device__ __forceinline__ void sort(uint& a, uint& b) {
    uint low = min(a, b);
    b = max(a, b);
    a = low;
}

extern "C" __global__ void __launch_bounds__(256)
    median_3x3(const byte* __restrict__ image, byte* __restrict__ result, uint width, uint height) {
    uint x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const uint columns[3] = {x > 0 ? x - 1 : 0, x, min(x + 1, width - 1)};
    const uint rows[3] = {y > 0 ? y - 1 : 0, y, min(y + 1, height - 1)};
    uint v[9];
#pragma unroll
    for (int i = 0; i < 9; i++) v[i] = image[rows[i / 3] * width + columns[i % 3]];
    sort(v[1], v[2]), sort(v[4], v[5]), sort(v[7], v[8]), sort(v[0], v[1]), sort(v[3], v[4]), sort(v[6], v[7]);
    sort(v[1], v[2]), sort(v[4], v[5]), sort(v[7], v[8]), sort(v[0], v[3]), sort(v[5], v[8]), sort(v[4], v[7]);
    sort(v[3], v[6]), sort(v[1], v[4]), sort(v[2], v[5]), sort(v[4], v[7]), sort(v[4], v[2]), sort(v[6], v[4]);
    sort(v[4], v[2]);
    result[y * width + x] = v[4];
}

__device__ __forceinline__ uint sum_of_warp(uint value) {
#pragma unroll
    for (int delta = 16; delta > 0; delta /= 2) value += __shfl_down_sync(0xffffffff, value, delta);
    return value;
}

extern "C" __global__ void __launch_bounds__(256)
    sum_blocks(const uint* __restrict__ values, uint* __restrict__ sums, uint length) {
    extern __shared__ uint of_warps[];
    uint tx = threadIdx.x, sum = 0;
    for (uint i = blockIdx.x * blockDim.x + tx; i < length; i += gridDim.x * 256) sum += values[i];
    sum = sum_of_warp(sum);
    if (tx % 32 == 0) of_warps[tx / 32] = sum;
    __syncthreads();
    if (tx < 32) {
        uint total = sum_of_warp(tx < 8 ? of_warps[tx] : 0);
        if (tx == 0) sums[blockIdx.x] = total;
    }
}

extern "C" __global__ void __launch_bounds__(256) scan_blocks(const uint* __restrict__ values,
                                                              uint* __restrict__ result, uint* __restrict__ sums,
                                                              uint length) {
    extern __shared__ uint halves[];
    uint tx = threadIdx.x, i = blockIdx.x * blockDim.x + tx;
    uint *from = halves, *to = halves + 256;
    from[tx] = i < length ? values[i] : 0;
#pragma unroll
    for (uint distance = 1; distance < 256; distance *= 2) {
        __syncthreads();
        uint before = tx >= distance ? from[tx - distance] : 0;
        to[tx] = from[tx] + before;
        uint* other = from;
        from = to, to = other;
    }
    uint sum = from[tx];
    if (i < length) result[i] = sum;
    if (tx == 255) sums[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    add_sums(uint* __restrict__ result, const uint* __restrict__ sums, uint length) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length && blockIdx.x > 0) result[i] += sums[blockIdx.x - 1];
}

extern "C" __global__ void __launch_bounds__(256)
    histogram(const byte* __restrict__ bytes, uint* __restrict__ bins, uint length) {
    extern __shared__ uint counts[];
    uint tx = threadIdx.x;
    counts[tx] = 0;
    __syncthreads();
    for (uint i = blockIdx.x * blockDim.x + tx; i < length; i += gridDim.x * 256) atomicAdd(&counts[bytes[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[tx], counts[tx]);
}

extern "C" __global__ void __launch_bounds__(256)
    product_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, uint rows,
                  uint columns, uint inner) {
    extern __shared__ float tiles[];
    float *tile_a = tiles, *tile_b = tiles + 256;
    uint tx = threadIdx.x, ty = threadIdx.y;
    uint column = blockIdx.x * blockDim.x + tx, row = blockIdx.y * blockDim.y + ty;
    float sum = 0.0f;
    for (uint first = 0; first < inner; first += 16) {
        uint k_of_a = first + tx, k_of_b = first + ty;
        tile_a[ty * 16 + tx] = row < rows && k_of_a < inner ? a[row * inner + k_of_a] : 0.0f;
        tile_b[ty * 16 + tx] = column < columns && k_of_b < inner ? b[k_of_b * columns + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) sum = fmaf(tile_a[ty * 16 + k], tile_b[k * 16 + tx], sum);
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

/// An element of a matrix, or 0 outside.
__device__ __forceinline__ float element(const float* __restrict__ matrix, uint rows, uint columns, uint row,
                                         uint column) {
    return row < rows && column < columns ? matrix[row * columns + column] : 0.0f;
}

extern "C" __global__ void __launch_bounds__(128)
    product_tensor(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, uint rows,
                   uint columns, uint inner) {
    uint g = threadIdx.x / 4, t = threadIdx.x % 4;
    uint first_row = (blockIdx.y * 4 + threadIdx.y) * 16, first_column = blockIdx.x * 8;
    float d[4] = {};
    for (uint k = 0; k < inner; k += 8) {
        float a0 = element(a, rows, inner, first_row + g, k + t);
        float a1 = element(a, rows, inner, first_row + g + 8, k + t);
        float a2 = element(a, rows, inner, first_row + g, k + t + 4);
        float a3 = element(a, rows, inner, first_row + g + 8, k + t + 4);
        float b0 = element(b, inner, columns, k + t, first_column + g);
        float b1 = element(b, inner, columns, k + t + 4, first_column + g);
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
              "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
    }
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        uint row = first_row + g + i / 2 * 8, column = first_column + 2 * t + i % 2;
        if (row < rows && column < columns) c[row * columns + column] = d[i];
    }
}

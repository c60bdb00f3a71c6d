// The CUDA C++ that `peers.py` compiles with NVRTC: convolutions of an n x n image with a k x k mask, k odd, and the
// kernel that measures the rate of multiply-adds.

extern "C" {
__constant__ float constant_mask[127 * 127];
}

__device__ bool is_inside(int x, int y, int n) { return x >= 0 && x < n && y >= 0 && y < n; }

/// One thread per pixel. The mask is in constant or in global memory.
template <bool IS_CONSTANT>
__global__ void one_pixel(const float* image, float* result, const float* mask, int n, int k) {
    int left = blockIdx.x * blockDim.x, right = left + blockDim.x, x = left + threadIdx.x;
    int top = blockIdx.y * blockDim.y, bottom = top + blockDim.y, y = top + threadIdx.y;
    if (!is_inside(x, y, n)) return;
    int halo = k / 2;
    auto sum_at = [&](bool tests_border) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++) {
            for (int j = 0; j < k; j++) {
                int column = x + halo - j, row = y + halo - i;
                if (tests_border && !is_inside(column, row, n)) continue;
                float coefficient = IS_CONSTANT ? constant_mask[i * k + j] : mask[i * k + j];
                sum = fmaf(coefficient, image[row * n + column], sum);
            }
        }
        return sum;
    };
    bool is_interior = left >= halo && top >= halo && right + halo <= n && bottom + halo <= n;
    result[y * n + x] = is_interior ? sum_at(false) : sum_at(true);
}

/// A tile of 32 x 16 pixels per block, with its halo in shared memory. The loops over the mask are unrolled.
template <int K>
__global__ void tile(const float* image, float* result, const float*, int n, int) {
    __shared__ float pixels[16 + K - 1][32 + K - 1];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    for (int i = threadIdx.y, row = y - K / 2; i < 16 + K - 1; i += 16, row += 16) {
        for (int j = threadIdx.x, column = x - K / 2; j < 32 + K - 1; j += 32, column += 32)
            pixels[i][j] = is_inside(column, row, n) ? image[row * n + column] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < K; i++) {
#pragma unroll
        for (int j = 0; j < K; j++)
            sum += constant_mask[i * K + j] * pixels[threadIdx.y + K - 1 - i][threadIdx.x + K - 1 - j];
    }
    if (is_inside(x, y, n)) result[y * n + x] = sum;
}

/// 2 * 16 * 4096 operations per thread, in 16 independent chains.
extern "C" __global__ void fma_chains(float* result, float factor) {
    float chains[16], sum = 0.0f;
    for (int i = 0; i < 16; i++) chains[i] = threadIdx.x * i;
    for (int step = 0; step < 4096; step++) {
#pragma unroll
        for (int i = 0; i < 16; i++) chains[i] = fmaf(chains[i], factor, factor);
    }
    for (int i = 0; i < 16; i++) sum += chains[i];
    result[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

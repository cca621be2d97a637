// The kernels of Scorn's own operators, for NVIDIA's GPUs. `make kernels` compiles this file to kernels.ptx, which is
// part of the program and which the driver translates for its card.
//
// Boards have their channels last: [batch, 8, 8, channels], 16-bit floats. Sums are made in 32 bits. Pointers to boards
// and biases are aligned to 16 bytes, and channels are a multiple of 8, where a kernel takes vectors.

#include <cuda_fp16.h>

// Numbers of activations, those of `activation_code` in lc0/onnx/graph.rs.
enum { NONE, RELU, TANH, SIGMOID, RELU2, SWISH, MISH, SELU };

// The largest number whose square is a 16-bit float.
constexpr float LARGEST_SQUARABLE = 255.0f;

// Squares of a board.
constexpr int SQUARES = 64;

// Eight 16-bit floats, which are loaded and stored at once.
struct alignas(16) Vector {
    __half2 pairs[4];
};

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

__device__ __forceinline__ float activate(float x, int activation) {
    switch (activation) {
        case RELU: return fmaxf(x, 0.0f);
        case TANH: return tanhf(x);
        case SIGMOID: return sigmoid(x);
        case RELU2: {
            const float limited = fminf(fmaxf(x, 0.0f), LARGEST_SQUARABLE);
            return limited * limited;
        }
        case SWISH: return x * sigmoid(x);
        case MISH: {
            // x tanh(ln(1 + e^x)), with n = e^x (e^x + 2): x n / (n + 2). From 10 on it is x in 16 bits.
            const float power = __expf(fminf(x, 10.0f));
            const float n = power * (power + 2.0f);
            return x * __fdividef(n, n + 2.0f);
        }
        case SELU: return 1.050701f * (x > 0.0f ? x : 1.6732632f * (__expf(x) - 1.0f));
        default: return x;
    }
}

__device__ __forceinline__ float2 activate(float2 x, int activation) {
    return make_float2(activate(x.x, activation), activate(x.y, activation));
}

// The same, with the code of the less frequent activations in one place.
__device__ __noinline__ float2 activate_apart(float2 x, int activation) { return activate(x, activation); }

__device__ __forceinline__ float2 activate_briefly(float2 x, int activation) {
    if (activation == RELU) return make_float2(fmaxf(x.x, 0.0f), fmaxf(x.y, 0.0f));
    return activate_apart(x, activation);
}

__device__ __forceinline__ float2 add(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

// Memory of a block; each kernel says what it keeps there.
extern __shared__ float shared[];

// Planes from bits. One block for each position.
//   masks   [batch, planes, 8], a byte for each rank of each plane, the a-file as bit 0
//   scalars [batch, scalar_count]
//   places  [planes], a plane's place among the scalars, or -1 if its squares are 0 or 1
//   output  [batch, 8, 8, planes]; planes are even
extern "C" __global__ void unpack_planes(const unsigned char* __restrict__ masks, const float* __restrict__ scalars,
                                         const int* __restrict__ places, __half* __restrict__ output, int planes,
                                         int scalar_count) {
    float* factors = shared;
    unsigned char* bytes = reinterpret_cast<unsigned char*>(shared + planes);
    const size_t position = blockIdx.x;
    for (int plane = threadIdx.x; plane < planes; plane += blockDim.x) {
        const int place = places[plane];
        factors[plane] = place < 0 ? 1.0f : scalars[position * scalar_count + place];
    }
    for (int i = threadIdx.x; i < planes * 8; i += blockDim.x) bytes[i] = masks[position * planes * 8 + i];
    __syncthreads();
    const int pairs = planes / 2;
    __half2* board = reinterpret_cast<__half2*>(output + position * SQUARES * planes);
    for (int i = threadIdx.x; i < SQUARES * pairs; i += blockDim.x) {
        const int square = i / pairs, plane = i % pairs * 2;
        const int rank = square / 8, file = square % 8;
        const float first = (bytes[plane * 8 + rank] >> file & 1) ? factors[plane] : 0.0f;
        const float second = (bytes[plane * 8 + 8 + rank] >> file & 1) ? factors[plane + 1] : 0.0f;
        board[i] = __floats2half2_rn(first, second);
    }
}

// activation(x + bias). One thread for each vector; channels are a multiple of 8.
//   x, output [rows, channels]; they may be the same
//   bias      [channels]
extern "C" __global__ void bias_activation(const Vector* x, const Vector* __restrict__ bias, Vector* output,
                                           unsigned int vectors, unsigned int row_vectors, int activation) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= vectors) return;
    Vector value = x[i];
    const Vector added = bias[i % row_vectors];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float2 sum = add(__half22float2(value.pairs[k]), __half22float2(added.pairs[k]));
        const float2 result = activate(sum, activation);
        value.pairs[k] = __floats2half2_rn(result.x, result.y);
    }
    output[i] = value;
}

// The same for any number of channels. One thread for each number.
extern "C" __global__ void bias_activation_any(const __half* x, const __half* __restrict__ bias, __half* output,
                                               unsigned int numbers, unsigned int channels, int activation) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= numbers) return;
    const float sum = __half2float(x[i]) + __half2float(bias[i % channels]);
    output[i] = __float2half_rn(activate(sum, activation));
}

// activation(x + bias + shortcut), the end of a residual block without squeeze-and-excite; as above.
extern "C" __global__ void bias_sum_activation(const Vector* x, const Vector* __restrict__ bias, const Vector* shortcut,
                                               Vector* output, unsigned int vectors, unsigned int row_vectors,
                                               int activation) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= vectors) return;
    Vector value = x[i];
    const Vector added = bias[i % row_vectors];
    const Vector passed = shortcut[i];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float2 biased = add(__half22float2(value.pairs[k]), __half22float2(added.pairs[k]));
        const float2 result = activate(add(biased, __half22float2(passed.pairs[k])), activation);
        value.pairs[k] = __floats2half2_rn(result.x, result.y);
    }
    output[i] = value;
}

// The end of a residual block with squeeze-and-excite: activation(sigmoid(gamma) (x + bias) + beta + shortcut), where
// gamma and beta are dense functions of the means of x + bias over the board. One block for each position.
//   x, shortcut, output [batch, 8, 8, channels]; output may be one of the others
//   bias                [channels]
//   squeeze             [channels, hidden], squeeze_bias [hidden]
//   excite              [hidden, 2 channels], excite_bias [2 channels]
// Channels are a multiple of 8. The number in a kernel's name is the number of squares that a thread has at most.
// Shared memory: `squeeze_excite_bytes` of call.rs.
template <int OWN>
__device__ __forceinline__ void squeeze_excite(const Vector* x, const __half* __restrict__ bias,
                                                  const Vector* shortcut, const __half* __restrict__ squeeze,
                                                  const __half* __restrict__ squeeze_bias,
                                                  const __half* __restrict__ excite,
                                                  const __half* __restrict__ excite_bias, Vector* output, int channels,
                                                  int hidden, int activation) {
    float* gates = shared;                // [2 channels]
    float* means = gates + 2 * channels;  // [channels]
    float* units = means + channels;      // [hidden], rounded up to even
    float* parts = units + hidden + hidden % 2;  // [8 blockDim.x]
    const int thread = threadIdx.x, threads = blockDim.x;
    const int row_vectors = channels / 8;
    const int groups = threads / row_vectors, group = thread / row_vectors, lane = thread % row_vectors;
    const size_t board = static_cast<size_t>(blockIdx.x) * SQUARES * row_vectors;

    // Each group of threads takes every so many squares, each of its threads eight channels.
    Vector own[OWN], passed[OWN];
    const size_t first = board + static_cast<size_t>(group) * row_vectors + lane;
    const size_t step = static_cast<size_t>(groups) * row_vectors;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        if (group < groups && group + i * groups < SQUARES) {
            own[i] = x[first + i * step];
            passed[i] = shortcut[first + i * step];
        }
    }
    float2 sums[4] = {};
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        if (group < groups && group + i * groups < SQUARES) {
#pragma unroll
            for (int k = 0; k < 4; k++) sums[k] = add(sums[k], __half22float2(own[i].pairs[k]));
        }
    }
    if (group < groups) {
#pragma unroll
        for (int k = 0; k < 4; k++) reinterpret_cast<float2*>(parts + group * channels + lane * 8)[k] = sums[k];
    }
    __syncthreads();
    for (int channel = thread; channel < channels; channel += threads) {
        float sum = 0.0f;
#pragma unroll 8
        for (int g = 0; g < groups; g++) sum += parts[g * channels + channel];
        means[channel] = sum / SQUARES + __half2float(bias[channel]);
    }
    __syncthreads();

    // Squeeze: the channels are shared out among the threads of a unit.
    const int shares = threads > hidden ? threads / hidden : 1;
    for (int i = thread; i < shares * hidden; i += threads) {
        const int share = i / hidden, unit = i % hidden;
        float sum = 0.0f;
#pragma unroll 8
        for (int channel = share; channel < channels; channel += shares)
            sum += means[channel] * __half2float(squeeze[channel * hidden + unit]);
        parts[i] = sum;
    }
    __syncthreads();
    for (int unit = thread; unit < hidden; unit += threads) {
        float sum = __half2float(squeeze_bias[unit]);
#pragma unroll 8
        for (int share = 0; share < shares; share++) sum += parts[share * hidden + unit];
        units[unit] = activate_briefly(make_float2(sum, 0.0f), activation).x;
    }
    __syncthreads();

    // Excite, two gates at a time: the factors of the channels, and what is added to them, which includes the bias.
    for (int pair = thread; pair < channels; pair += threads) {
        const __half2* column = reinterpret_cast<const __half2*>(excite) + pair;
        float2 sum = __half22float2(reinterpret_cast<const __half2*>(excite_bias)[pair]);
#pragma unroll 8
        for (int unit = 0; unit < hidden; unit++) {
            const float2 weights = __half22float2(column[unit * channels]);
            sum = make_float2(fmaf(units[unit], weights.x, sum.x), fmaf(units[unit], weights.y, sum.y));
        }
        const bool is_factor = pair < channels / 2;
        gates[2 * pair] = is_factor ? sigmoid(sum.x) : sum.x;
        gates[2 * pair + 1] = is_factor ? sigmoid(sum.y) : sum.y;
    }
    __syncthreads();
    if (group >= groups) return;
    float2 factors[4], added[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        factors[k] = reinterpret_cast<float2*>(gates + lane * 8)[k];
        const float2 beta = reinterpret_cast<float2*>(gates + channels + lane * 8)[k];
        const float2 shift = __half22float2(reinterpret_cast<const __half2*>(bias + lane * 8)[k]);
        added[k] = make_float2(fmaf(factors[k].x, shift.x, beta.x), fmaf(factors[k].y, shift.y, beta.y));
    }
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        if (group + i * groups >= SQUARES) continue;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float2 number = __half22float2(own[i].pairs[k]), other = __half22float2(passed[i].pairs[k]);
            const float2 sum = make_float2(fmaf(factors[k].x, number.x, added[k].x) + other.x,
                                           fmaf(factors[k].y, number.y, added[k].y) + other.y);
            const float2 result = activate_briefly(sum, activation);
            own[i].pairs[k] = __floats2half2_rn(result.x, result.y);
        }
        output[first + i * step] = own[i];
    }
}

#define SQUEEZE_EXCITE(OWN)                                                                                           \
    extern "C" __global__ void __launch_bounds__(512) squeeze_excite_##OWN(                                           \
        const Vector* x, const __half* __restrict__ bias, const Vector* shortcut, const __half* __restrict__ squeeze, \
        const __half* __restrict__ squeeze_bias, const __half* __restrict__ excite,                                   \
        const __half* __restrict__ excite_bias, Vector* output, int channels, int hidden, int activation) {           \
        squeeze_excite<OWN>(x, bias, shortcut, squeeze, squeeze_bias, excite, excite_bias, output, channels, hidden,  \
                            activation);                                                                              \
    }

SQUEEZE_EXCITE(2)
SQUEEZE_EXCITE(4)
SQUEEZE_EXCITE(8)

// Probabilities of the legal moves. One block for each position, one thread for each place, a multiple of 32 threads.
//   logits    [batch, logit_count]
//   map       [entries], the place of an entry of the policy vector among the logits
//   moves     [batch, slots], entries of the legal moves, then -1
//   sharpness [1], the inverse of the softmax temperature
//   output    [batch, slots], 0 where there is no move
extern "C" __global__ void legal_moves(const __half* __restrict__ logits, const int* __restrict__ map,
                                       const short* __restrict__ moves, const float* __restrict__ sharpness,
                                       float* __restrict__ output, int logit_count) {
    __shared__ float parts[32];
    const int thread = threadIdx.x, warp = thread / 32, warps = blockDim.x / 32;
    const size_t place = static_cast<size_t>(blockIdx.x) * blockDim.x + thread;
    const int entry = moves[place];
    const float no_move = -1e30f;
    float logit = no_move;
    const size_t row = static_cast<size_t>(blockIdx.x) * logit_count;
    if (entry >= 0) logit = __half2float(logits[row + map[entry]]) * *sharpness;

    float most = logit;
    for (int distance = 16; distance > 0; distance /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, distance));
    if (thread % 32 == 0) parts[warp] = most;
    __syncthreads();
    for (int other = 0; other < warps; other++) most = fmaxf(most, parts[other]);
    __syncthreads();

    const float power = entry >= 0 ? __expf(logit - most) : 0.0f;
    float sum = power;
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (thread % 32 == 0) parts[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int other = 0; other < warps; other++) sum += parts[other];
    // Never hidden: a logit that is no number gives results that are none, which the processor refuses.
    output[place] = entry >= 0 ? power / sum : 0.0f;
}

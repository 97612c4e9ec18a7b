// The fibers that run a text, and the program around it: launches read from standard input, their arrays written back.
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sanitizer/common_interface_defs.h>
#include <ucontext.h>
#include <vector>

Place threadIdx, blockIdx, blockDim, gridDim;

float from_float16(unsigned short bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent ? std::ldexp(1024.0f + fraction, exponent - 25) : std::ldexp((float)fraction, -24);
    return bits >> 15 ? -size : size;
}

unsigned short to_float16(float x) {
    const unsigned short sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return sign | 0x7e00;
    const float size = std::fabs(x);
    if (size >= 65520.0f) return sign | 0x7c00;
    if (size < 6.103515625e-05f) return sign | (unsigned short)std::rint(std::ldexp(size, 24));
    const int exponent = std::ilogb(size);
    return sign | (unsigned short)(((exponent + 14) << 10) + (int)std::rint(std::ldexp(size, 10 - exponent)));
}

enum { STACK = 1 << 16 };
struct Fiber { ucontext_t context; void* point[5]; Barrier* waits; unsigned generation; bool begun, ended; void* fake; };
static Fiber fibers[MOST];
static char stacks[MOST][STACK] __attribute__((aligned(64)));
static void* scheduler[5];
static const void* scheduler_bottom;
static size_t scheduler_size;
static void* scheduler_fake;
static Barrier whole;
Barrier warps[MOST / 32];
unsigned char lanes[MOST][8];
float factors[MOST][12];
static int running;
static void (*entered)(void**);
static void** passed;

static void fail(const char* what) {
    fprintf(stderr, "block %u, thread %d: %s\n", blockIdx.x, running, what);
    exit(3);
}

// The compiler's own jumps need no call of the system, unlike swapcontext. The sanitizer would make some before each that it
// sees, and mark all of the stack as clean. Here each jump is told to it as a switch, and skips no frame.
static __attribute__((noipa, no_sanitize("address"))) void go_to(void** point) { __builtin_longjmp(point, 1); }

static __attribute__((noinline)) void leave(bool ends) {
    Fiber& own = fibers[running];
    __sanitizer_start_switch_fiber(ends ? nullptr : &own.fake, scheduler_bottom, scheduler_size);
    if (!__builtin_setjmp(own.point)) go_to(scheduler);
    __sanitizer_finish_switch_fiber(fibers[running].fake, &scheduler_bottom, &scheduler_size);
}

void wait(Barrier& barrier, int members) {
    const int own = running;
    if (++barrier.arrived == members) {
        barrier.arrived = 0;
        ++barrier.generation;
        return;
    }
    fibers[own].waits = &barrier;
    fibers[own].generation = barrier.generation;
    leave(false);
}

void __syncthreads() { wait(whole, blockDim.x); }

// As much of float32: the cores read 10 bits of a fraction, and drop the others.
void product_of_warp_in_tf32(float* sum, const unsigned* x, const unsigned* y) {
    const int own = threadIdx.x, base = own / 32 * 32, lane = own % 32;
    Barrier& warp = warps[own / 32];
    for (int at = 0; at < 6; ++at) factors[own][at] = __int_as_float((at < 4 ? x[at] : y[at - 4]) & ~0x1fffu);
    wait(warp, 32);
    for (int at = 0; at < 4; ++at) {
        const int row = lane / 4 + at / 2 * 8, column = lane % 4 * 2 + at % 2;
        for (int k = 0; k < 8; ++k) {
            const float left = factors[base + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2];
            const float right = factors[base + column * 4 + k % 4][4 + k / 4];
            sum[at] += left * right;
        }
    }
    wait(warp, 32);
}

// The twin of the load of four matrices of 8 x 8 numbers of 16 bits, of which each lane names a row.
static const unsigned short* rows_of[MOST];
void matrices_of_warp(unsigned* found, const unsigned short* row, bool turned) {
    const int own = threadIdx.x, base = own / 32 * 32, group = own % 32 / 4, part = own % 4 * 2;
    Barrier& warp = warps[own / 32];
    if ((size_t)row % 16) fail("a row of a matrix begins at no multiple of 16 bytes");
    rows_of[own] = row;
    wait(warp, 32);
    for (int at = 0; at < 4; ++at) {
        const unsigned short* const* rows = rows_of + base + 8 * at;
        const unsigned low = turned ? rows[part][group] : rows[group][part];
        const unsigned high = turned ? rows[part + 1][group] : rows[group][part + 1];
        found[at] = low | high << 16;
    }
    wait(warp, 32);
}

static void begin() {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
    entered(passed);
    fibers[running].ended = true;
    leave(true);
}

static __attribute__((noinline)) void resume(int thread) {
    running = thread;
    threadIdx.x = thread;
    Fiber& own = fibers[thread];
    own.waits = nullptr;
    __sanitizer_start_switch_fiber(&scheduler_fake, stacks[thread], STACK);
    if (!__builtin_setjmp(scheduler)) {
        if (own.begun) go_to(own.point);
        own.begun = true;
        setcontext(&own.context);
    }
    __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
}

// Let each of some threads go on to where it waits; return whether any did, and take off ``left`` those that end.
static bool advance(const std::vector<int>& order, size_t first, size_t last, size_t& left) {
    bool moved = false;
    for (size_t at = first; at < last; ++at) {
        Fiber& fiber = fibers[order[at]];
        if (fiber.ended || (fiber.waits && fiber.waits->generation == fiber.generation)) continue;
        resume(order[at]);
        left -= fiber.ended;
        moved = true;
    }
    return moved;
}

static void run_block(const std::vector<int>& order, int which) {
    whole = Barrier();
    memset(warps, 0, sizeof warps);
    memset(lanes, 0xcb, sizeof lanes);
    for (int thread : order) {
        Fiber& fiber = fibers[thread];
        fiber.begun = fiber.ended = false;
        fiber.waits = nullptr;
        fiber.fake = nullptr;
        if (!fiber.context.uc_stack.ss_sp) getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = stacks[thread];
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, begin, 0);
    }
    // In the third order all threads go on side by side; in the others each warp goes as far as it can before the next.
    const size_t together = which == 2 ? order.size() : 32;
    for (size_t left = order.size(); left;) {
        bool moved = false;
        for (size_t first = 0; first < order.size(); first += together)
            while (advance(order, first, std::min(first + together, order.size()), left)) moved = true;
        if (!moved) fail("waits at a barrier that not all threads reach");
    }
}

static std::vector<int> order_of(int threads, int which) {
    std::vector<int> order(threads);
    for (int at = 0; at < threads; ++at)
        order[at] = which == 0 ? at : which == 1 ? threads - 1 - at : (int)((at * 77LL + 13) % threads);
    return order;
}

static void launch(void (*call)(void**), void** arguments, bool waits, int blocks, int threads, int which) {
    entered = call;
    passed = arguments;
    blockDim.x = threads;
    gridDim.x = blocks;
    const std::vector<int> order = order_of(threads, which);
    for (int at = 0; at < blocks; ++at) {
        blockIdx.x = which == 1 ? blocks - 1 - at : at;
        if (waits) {
            run_block(order, which);
            continue;
        }
        for (int thread : order) {
            running = thread;
            threadIdx.x = thread;
            call(arguments);
        }
    }
}

struct Array { long long size, shift; std::vector<char> given; };
struct Place64 { long long region, offset; };

template <typename T> static bool read_one(T& value) { return fread(&value, sizeof value, 1, stdin) == 1; }

int main() {
    int head[5];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        const int which = head[0], blocks = head[1], threads = head[2], count = head[3];
        std::vector<Array> regions(head[4]);
        for (Array& one : regions) {
            if (!read_one(one.size) || !read_one(one.shift)) return 4;
            one.given.resize(one.size);
            if (fread(one.given.data(), 1, one.size, stdin) != (size_t)one.size) return 4;
        }
        std::vector<int> kinds(count);
        std::vector<long long> numbers(count);
        std::vector<std::vector<Place64>> places(count);
        for (int at = 0; at < count; ++at) {
            if (!read_one(kinds[at]) || !read_one(numbers[at])) return 4;
            places[at].resize(kinds[at] ? numbers[at] : 0);
            for (Place64& one : places[at]) if (!read_one(one)) return 4;
        }
        std::vector<std::vector<char>> first;
        int differs = 0;
        for (int order = 0; order < 3; ++order) {
            std::vector<void*> memory(regions.size()), starts(regions.size()), arguments(count);
            for (size_t at = 0; at < regions.size(); ++at) {
                if (posix_memalign(&memory[at], 64, regions[at].size + regions[at].shift)) return 4;
                starts[at] = (char*)memory[at] + regions[at].shift;
                memcpy(starts[at], regions[at].given.data(), regions[at].size);
            }
            std::vector<std::vector<void*>> addresses(count);
            std::vector<void*> tables(count);
            for (int at = 0; at < count; ++at) {
                for (const Place64& one : places[at]) addresses[at].push_back((char*)starts[one.region] + one.offset);
                tables[at] = addresses[at].data();
                arguments[at] = kinds[at] == 2 ? (void*)&tables[at] : kinds[at] ? tables[at] : (void*)&numbers[at];
            }
            launch(kernels[which].call, arguments.data(), kernels[which].waits, blocks, threads, order);
            for (size_t at = 0; at < regions.size(); ++at) {
                const char* found = (const char*)starts[at];
                if (order == 0) first.emplace_back(found, found + regions[at].size);
                differs |= memcmp(first[at].data(), found, regions[at].size) != 0;
                free(memory[at]);
            }
        }
        fwrite(&differs, sizeof differs, 1, stdout);
        for (const auto& one : first) fwrite(one.data(), 1, one.size(), stdout);
        fflush(stdout);
    }
    return 0;
}

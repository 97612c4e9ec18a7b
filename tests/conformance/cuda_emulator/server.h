// Launches read from standard input, their arrays written back to standard output.
struct Kernel { void (*call)(void**); bool waits; };
extern const Kernel kernels[];

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

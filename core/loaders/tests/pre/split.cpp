// Cuts texts with llama.cpp's unicode_regex_split. Reads feed.bin, writes out.bin: length-prefixed strings, see make_pieces.py.
#include "unicode.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

static uint32_t number(FILE * f) {
    uint32_t v = 0;
    if (fread(&v, 4, 1, f) != 1) v = 0;
    return v;
}

static std::string text(FILE * f) {
    std::string s(number(f), 0);
    if (!s.empty() && fread(&s[0], 1, s.size(), f) != s.size()) s.clear();
    return s;
}

static std::vector<std::string> list(FILE * f) {
    std::vector<std::string> items(number(f));
    for (auto & item : items) item = text(f);
    return items;
}

int main() {
    FILE * in = fopen("feed.bin", "rb");
    FILE * out = fopen("out.bin", "wb");
    const auto texts = list(in);
    for (uint32_t left = number(in); left > 0; left--) {
        const auto regexes = list(in);
        for (const auto & t : texts) {
            const auto pieces = unicode_regex_split(t, regexes, false);
            const uint32_t count = pieces.size();
            fwrite(&count, 4, 1, out);
            for (const auto & piece : pieces) {
                const uint32_t n = piece.size();
                fwrite(&n, 4, 1, out);
                fwrite(piece.data(), 1, n, out);
            }
        }
    }
    fclose(out);
    return 0;
}

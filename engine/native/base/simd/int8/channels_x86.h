#pragma once
// Unpacking bytes and then words orders N channels so that packing brings back the order.

namespace palm {
namespace {

#if defined(__AVX512VNNI__)
#define PALM_PRODUCTS(V, prefix)                                                \
  using Number = int8_t;                                                        \
  static constexpr size_t place(size_t lane, size_t i) { return lane * 4 + i; } \
  static V dot(V bytes, const Number* weights, V sum) {                         \
    return prefix##_dpbusd_epi32(sum, bytes, load(weights));                    \
  }
#else
// As Quads<S32>.
#define PALM_PRODUCTS(V, prefix)                                                          \
  using Number = int16_t;                                                                 \
  static constexpr size_t place(size_t lane, size_t i) {                                  \
    return i % 2 * 2 * lanes + lane * 2 + i / 2;                                          \
  }                                                                                       \
  static V dot(V bytes, const Number* weights, V sum) {                                   \
    const V even = bytes & prefix##_set1_epi16(255), odd = prefix##_srli_epi16(bytes, 8); \
    sum = prefix##_add_epi32(sum, prefix##_madd_epi16(even, load(weights)));              \
    return prefix##_add_epi32(sum, prefix##_madd_epi16(odd, load(weights + 2 * lanes)));  \
  }
#endif

#define PALM_CHANNELS(count, V, prefix, load_of, store_of)                                  \
  template <>                                                                               \
  struct Channels<count> {                                                                  \
    static constexpr size_t lanes = count / 4;                                              \
    using Bytes = V;                                                                        \
    using Sums = V;                                                                         \
    struct Fours {                                                                          \
      V v[4];                                                                               \
    };                                                                                      \
    static constexpr size_t channel_of(size_t vector, size_t lane) {                        \
      return lane / 4 * 16 + vector * 4 + lane % 4;                                         \
    }                                                                                       \
    static V load(const void* from) {                                                       \
      const V* const p = static_cast<const V*>(from);                                       \
      return load_of(p);                                                                    \
    }                                                                                       \
    static V load_sums(const int32_t* from) { return load(from); }                          \
    static void store(V x, void* to) { store_of(static_cast<V*>(to), x); }                  \
    PALM_PRODUCTS(V, prefix)                                                                \
    static PALM_INLINE Fours join(V a, V b, V c, V d) {                                     \
      const V ab = prefix##_unpacklo_epi8(a, b), cd = prefix##_unpacklo_epi8(c, d);         \
      const V ef = prefix##_unpackhi_epi8(a, b), gh = prefix##_unpackhi_epi8(c, d);         \
      return {prefix##_unpacklo_epi16(ab, cd), prefix##_unpackhi_epi16(ab, cd),             \
              prefix##_unpacklo_epi16(ef, gh), prefix##_unpackhi_epi16(ef, gh)};            \
    }                                                                                       \
    static PALM_INLINE void dot(const Fours& bytes, const Number* weights, V* sums) {       \
      PALM_UNROLL for (size_t v = 0; v < 4; ++v)                                            \
        sums[v] = dot(bytes.v[v], weights + v * count, sums[v]);                            \
    }                                                                                       \
    static constexpr bool kHasBytes = true;                                                 \
    static PALM_INLINE void store_bytes(ByteRange range, const V* sums, const float* scale, \
                                        uint8_t* y) {                                       \
      V r[4];                                                                               \
      PALM_UNROLL for (size_t v = 0; v < 4; ++v) {                                          \
        const auto by = prefix##_loadu_ps(scale + v * lanes);                               \
        r[v] = prefix##_cvtps_epi32(prefix##_mul_ps(prefix##_cvtepi32_ps(sums[v]), by));    \
      }                                                                                     \
      const V zero = prefix##_set1_epi16(range.zero);                                       \
      const V ab = prefix##_adds_epi16(prefix##_packs_epi32(r[0], r[1]), zero);             \
      const V cd = prefix##_adds_epi16(prefix##_packs_epi32(r[2], r[3]), zero);             \
      V q = prefix##_packus_epi16(ab, cd);                                                  \
      q = prefix##_max_epu8(q, prefix##_set1_epi8(static_cast<char>(range.low)));           \
      q = prefix##_min_epu8(q, prefix##_set1_epi8(static_cast<char>(range.high)));          \
      store(q, y);                                                                          \
    }                                                                                       \
  };

PALM_CHANNELS(16, __m128i, _mm, _mm_loadu_si128, _mm_storeu_si128)
PALM_CHANNELS(32, __m256i, _mm256, _mm256_loadu_si256, _mm256_storeu_si256)
#if defined(__AVX512VNNI__)
PALM_CHANNELS(64, __m512i, _mm512, _mm512_loadu_si512, _mm512_storeu_si512)
constexpr size_t kMostChannels = 64;
#else
constexpr size_t kMostChannels = 32;
#endif
#undef PALM_CHANNELS
#undef PALM_PRODUCTS

}  // namespace
}  // namespace palm

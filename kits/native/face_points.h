#pragma once
// Points of a face's mesh by their meaning: palmkit.kits.face.topology has the whole of it.
#include <array>
#include <cstddef>
#include <cstdint>

namespace palm_kits {

// What stays in place while a face speaks or blinks, and where it is on the canonical face, in
// centimetres.
extern const std::array<int16_t, 76> kRigid;
extern const std::array<std::array<float, 3>, 76> kRigidFace;
// Points on plain skin: palmkit.kits.tryon.things.
extern const std::array<int16_t, 244> kPlainSkin;
extern const std::array<std::array<int16_t, 3>, 852> kTriangles;

inline constexpr std::array<int, 36> kFaceOval{
    10,  338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
    152, 148, 176, 149, 150, 136, 172, 58,  132, 93,  234, 127, 162, 21,  54,  103, 67,  109};
inline constexpr std::array<int, 20> kLipsOuter{61,  146, 91,  181, 84,  17, 314, 405, 321, 375,
                                                291, 409, 270, 269, 267, 0,  37,  39,  40,  185};
inline constexpr std::array<int, 20> kLipsInner{78,  95,  88,  178, 87,  14, 317, 402, 318, 324,
                                                308, 415, 310, 311, 312, 13, 82,  81,  80,  191};
inline constexpr std::array<int, 16> kRightEye{33,  7,   163, 144, 145, 153, 154, 155,
                                               133, 173, 157, 158, 159, 160, 161, 246};
inline constexpr std::array<int, 16> kLeftEye{263, 249, 390, 373, 374, 380, 381, 382,
                                              362, 398, 384, 385, 386, 387, 388, 466};
inline constexpr std::array<int, 10> kRightBrow{70, 63, 105, 66, 107, 55, 65, 52, 53, 46};
inline constexpr std::array<int, 10> kLeftBrow{300, 293, 334, 296, 336, 285, 295, 282, 283, 276};
inline constexpr size_t kForehead = 10, kChin = 152;

}  // namespace palm_kits

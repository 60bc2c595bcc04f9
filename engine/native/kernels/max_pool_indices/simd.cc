#include "kernels/max_pool_indices/body.h"

namespace palm {

void PALM_FN(max_places_f32)(const MaxPlaces<float>& max) { max_places(max); }

}  // namespace palm

#pragma once
#include <algorithm>
#include <functional>
#include <vector>

namespace palm {

// Sorts by a heap: a fraction of std::sort's code, for what is not sorted in a run.
template <class T, class Less = std::less<>>
void sort_all(std::vector<T>& all, Less less = {}) {
  std::make_heap(all.begin(), all.end(), less);
  std::sort_heap(all.begin(), all.end(), less);
}

}  // namespace palm

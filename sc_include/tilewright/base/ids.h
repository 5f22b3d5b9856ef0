// Index types that cannot be mixed up, and a vector that accepts only its own index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright {

enum class TileId : std::uint32_t {};        ///< row-major over the whole mesh: y * width + x
enum class StageId : std::uint32_t {};       ///< pipeline stage, 0 holds the embedding
enum class MicroBatchId : std::uint32_t {};  ///< 0 .. m-1 within an iteration
enum class DramId : std::uint32_t {};        ///< DRAM controller, in the machine's order
enum class LinkId : std::uint32_t {};        ///< directed link, in the machine's order

constexpr TileId kNoTile = static_cast<TileId>(0xffffffffu);

template <class Id>
constexpr std::uint32_t index(Id id) {
  return static_cast<std::uint32_t>(id);
}

/// A std::vector indexed by one id type only.
template <class Id, class T>
class IdVector : private std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  using Base::begin;
  using Base::clear;
  using Base::emplace_back;
  using Base::empty;
  using Base::end;
  using Base::push_back;
  using Base::reserve;
  using Base::resize;
  using Base::size;
  T& operator[](Id id) { return Base::operator[](index(id)); }
  const T& operator[](Id id) const { return Base::operator[](index(id)); }
};

}  // namespace tilewright

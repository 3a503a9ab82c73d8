#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/array_state.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {

/// Lists, points or a mask of an array whose parts are read by their own chunks (`array_facts::parts`). As an
/// `indexed_selection` it is that of the boxes of the array's layout, which any array with such a layout can read.
class divided_selection final : public indexed_selection {
 public:
  /// What is selected of one part, resolved against the part's own layout.
  struct share {
    const array_parts* in = nullptr;  ///< the part is number `which` of these, and has no parts itself
    std::size_t which = 0;
    const chunk_layout* layout = nullptr;  ///< the part's, or its finer one
    std::shared_ptr<const indexed_selection> indexed;
    strided_box from;  ///< if `indexed` is null
    extents first;     ///< of lists: the number in the result of the first element along each dimension
  };

  /// Divides a selection, which `boxes` is for the array's own layout, by the array's parts.
  divided_selection(std::shared_ptr<const indexed_selection> boxes, std::shared_ptr<const array_parts> of,
                    const orthogonal_selection& which, const extents& shape);
  divided_selection(std::shared_ptr<const indexed_selection> boxes, std::shared_ptr<const array_parts> of,
                    const coordinate_view& which, const extents& shape);
  divided_selection(std::shared_ptr<const indexed_selection> boxes, std::shared_ptr<const array_parts> of,
                    const mask_selection& which);

  /// The selection as one of these parts; null: it is not divided, or by the parts of another array.
  static const divided_selection* of(const indexed_selection* which, const array_parts* parts) noexcept;

  /// The shares of all parts that it touches.
  const std::vector<share>& shares() const noexcept { return shares_; }

  std::uint64_t cells() const noexcept override { return boxes_->cells(); }
  cell_id cell(std::uint64_t i) const noexcept override { return boxes_->cell(i); }
  bool place(const source& from, cell_id cell, placement& out) const noexcept override {
    return boxes_->place(from, cell, out);
  }
  bool places_axes() const noexcept override { return boxes_->places_axes(); }
  std::string describe() const override { return boxes_->describe(); }

 private:
  std::shared_ptr<const indexed_selection> boxes_;
  std::shared_ptr<const array_parts> parts_;
  std::vector<share> shares_;
};

}  // namespace penstock::inline v0

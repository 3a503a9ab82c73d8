#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

/// Tiles of an image as in TIFF, and the steps from a decoded tile to bands of rows: the predictor and the move. Plain
/// loops for the ceiling program, which links no part of Penstock.
///
/// Source: TIFF 6.0, section 14 (predictor 2); Adobe Photoshop TIFF Technical Note 3 (predictor 3).
struct tiles {
  std::size_t width = 0, height = 0, samples = 1, item = 1;  // of a tile: pixels, samples per pixel, bytes per sample
  unsigned predictor = 1;
  std::size_t image_width = 0, image_height = 0;

  std::size_t bytes() const { return width * height * samples * item; }
  std::size_t across() const { return (image_width + width - 1) / width; }
  std::size_t image_bytes() const { return image_width * image_height * samples * item; }

  /// Writes tile `which`, as it was decoded, to its place in `image`, (samples, image_height, image_width).
  void place(std::size_t which, std::byte* decoded, std::vector<std::byte>& row, std::byte* image) const {
    const std::size_t left = which % across() * width, top = which / across() * height;
    const std::size_t columns = image_width - left < width ? image_width - left : width;
    const std::size_t rows = image_height - top < height ? image_height - top : height;
    const std::size_t row_bytes = width * samples * item;
    row.resize(row_bytes);
    for (std::size_t y = 0; y < rows; ++y) {
      std::byte* from = decoded + y * row_bytes;
      if (predictor == 2) {
        item == 1 ? add<std::uint8_t>(from) : add<std::uint16_t>(from);
      } else if (predictor == 3) {
        join(from, row.data());
        from = row.data();
      }
      std::byte* const to = image + ((top + y) * image_width + left) * item;
      const std::size_t plane = image_width * image_height * item;
      if (samples == 1) {
        std::memcpy(to, from, columns * item);
      } else if (samples == 3 && item == 1) {
        for (std::size_t x = 0; x < columns; ++x) {
          to[x] = from[3 * x];
          to[plane + x] = from[3 * x + 1];
          to[2 * plane + x] = from[3 * x + 2];
        }
      } else {
        for (std::size_t s = 0; s < samples; ++s)
          for (std::size_t x = 0; x < columns; ++x)
            std::memcpy(to + s * plane + x * item, from + (x * samples + s) * item, item);
      }
    }
  }

 private:
  template <typename T>
  void add(std::byte* row) const {
    T* const values = reinterpret_cast<T*>(row);  // tiles are aligned, their rows whole items
    for (std::size_t i = samples; i < width * samples; ++i) values[i] = static_cast<T>(values[i] + values[i - samples]);
  }

  // Undoes differences of bytes, then joins planes of bytes, the highest first.
  void join(std::byte* from, std::byte* to) const {
    add_bytes(from);
    const std::size_t items = width * samples;
    for (std::size_t i = 0; i < items; ++i)
      for (std::size_t b = 0; b < item; ++b) to[i * item + b] = from[(item - 1 - b) * items + i];
  }
  void add_bytes(std::byte* row) const {
    auto* const values = reinterpret_cast<std::uint8_t*>(row);
    for (std::size_t i = samples; i < width * samples * item; ++i)
      values[i] = static_cast<std::uint8_t>(values[i] + values[i - samples]);
  }
};

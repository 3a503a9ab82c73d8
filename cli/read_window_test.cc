#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "read_arguments.h"

namespace penstock::cli {
namespace {

std::vector<std::string> joined(std::vector<const char*> words) {
  return join_bounds(static_cast<int>(words.size()), words.data());
}

TEST(JoinBounds, FourNumbersBecomeOneWord) {
  EXPECT_EQ(joined({"penstock", "read", "--bounds", "-1e2", "-50", "2e2", "+5e1", "x.tif", "--force"}),
            (std::vector<std::string>{"penstock", "read", "--bounds=-1e2,-50,2e2,+5e1", "x.tif", "--force"}));
  EXPECT_EQ(joined({"--bounds", "-1e2,-50,2e2,+5e1", "x.tif"}),
            (std::vector<std::string>{"--bounds=-1e2,-50,2e2,+5e1", "x.tif"}));
}

TEST(JoinBounds, OptionsEndTheNumbers) {
  EXPECT_EQ(joined({"--bounds", "1", "2", "3", "-o", "x.npy"}),
            (std::vector<std::string>{"--bounds=1,2,3", "-o", "x.npy"}));
  EXPECT_EQ(joined({"x.tif", "--bounds"}), (std::vector<std::string>{"x.tif", "--bounds="}));
  EXPECT_EQ(joined({"x.tif", "--bounds=1,2,3,4"}), (std::vector<std::string>{"x.tif", "--bounds=1,2,3,4"}));
}

TEST(ReadArguments, RecogniseWindowsByOptionsAndTiffsByName) {
  read_arguments given;
  EXPECT_FALSE(is_window(given));
  given.output = "x.npy";
  EXPECT_FALSE(is_window(given));
  EXPECT_EQ(output_format(given), "npy");
  given.output = "x.TIF";
  EXPECT_TRUE(is_window(given));
  EXPECT_EQ(output_format(given), "");
  given.format = "bin";
  EXPECT_FALSE(is_window(given)) << "the format takes precedence over the name";
  EXPECT_EQ(output_format(given), "bin");
  given.resampling = "average";
  EXPECT_TRUE(is_window(given));
}

}  // namespace
}  // namespace penstock::cli

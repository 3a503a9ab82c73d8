#include "contract/codec_contract.h"

#include <cctype>
#include <vector>

#include "extend/extensions.h"

namespace penstock::contract {
namespace {

std::vector<codec_case> codecs_of_the_library() {
  std::vector<codec_case> out;
  for (const std::string& text : byte_codec_texts()) out.push_back({text});
  return out;
}

std::string name_of(const testing::TestParamInfo<codec_case>& each) {
  const std::string& text = each.param.text;
  const std::size_t from = text.find(R"("name":")") + 8;
  std::string name = text.substr(from, text.find('"', from) - from);
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name + "_" + std::to_string(each.index);
}

INSTANTIATE_TEST_SUITE_P(Bytes, CodecContract, testing::ValuesIn(codecs_of_the_library()), name_of);
INSTANTIATE_TEST_SUITE_P(Extension, CodecContract,
                         testing::Values(codec_case{R"({"name":"run_length"})", run_length_codecs()}), name_of);

}  // namespace
}  // namespace penstock::contract

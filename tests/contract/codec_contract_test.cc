#include "contract/codec_contract.h"

#include <cctype>

namespace penstock::contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Bytes, CodecContract, testing::ValuesIn(byte_codec_texts()),
                         [](const testing::TestParamInfo<std::string>& each) {
                           const std::size_t from = each.param.find(R"("name":")") + 8;
                           std::string name = each.param.substr(from, each.param.find('"', from) - from);
                           std::replace_if(
                               name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name + "_" + std::to_string(each.index);
                         });

}  // namespace
}  // namespace penstock::contract

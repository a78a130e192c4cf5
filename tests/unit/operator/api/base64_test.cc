#include "operator/api/base64.h"

#include <gtest/gtest.h>

namespace larder::api {
namespace {

TEST(Base64Test, ExamplesOfTheStandard) {
  const std::pair<const char*, const char*> all[] = {{"", ""},
                                                     {"f", "Zg=="},
                                                     {"fo", "Zm8="},
                                                     {"foo", "Zm9v"},
                                                     {"foob", "Zm9vYg=="},
                                                     {"fooba", "Zm9vYmE="},
                                                     {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : all) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64Test, EveryByteRoundTrips) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
}

TEST(Base64Test, InvalidTextYieldsNoValue) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "====", "Zg==Zg==", "Z g=", "Zh==", "Zm9=", "Zm9v\n", "Zm-_"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace larder::api

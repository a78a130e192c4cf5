// The common parts of the writers of seeds: values as bytes, and the folder of inputs. One thread.
#pragma once

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

namespace larder::fuzz {

// Of the corpora.
inline std::string directory;

inline void write(const std::string& target, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(directory + "/" + target);
  std::ofstream(directory + "/" + target + "/seed-" + name, std::ios::binary) << bytes;
}

template <typename... Values>
std::string pack(Values... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}
inline std::string u8(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes += static_cast<char>(value);
  return bytes;
}

// Of the inputs that the operator and larderctl get from others: operator_seeds.cc.
void operator_seeds();

}  // namespace larder::fuzz

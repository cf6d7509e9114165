// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "testbed/link/control.h"

#include <sstream>
#include <vector>

namespace satchel::link {

namespace {

using Words = std::vector<std::string>;

Words Split(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

template <typename Number>
bool Parse(const std::string& word, Number* number) {
  std::istringstream stream(word);
  return (stream >> *number) && stream.eof();
}

bool Add(Emulator* emulator, const Words& words, std::string* error) {
  uint64_t seed = 0;
  if (words.size() != 7 || !Parse(words[6], &seed)) {
    *error = "add wants NAME NETNS INTERFACE NETNS INTERFACE SEED";
    return false;
  }
  return emulator->Add(words[1], {words[2], words[3]}, {words[4], words[5]}, seed, error);
}

bool Set(Emulator* emulator, const Words& words, int64_t now, std::string* error) {
  Parameters wanted;
  const bool understood = words.size() == 9 && (words[2] == "up" || words[2] == "down") &&
                          Parse(words[3], &wanted.rate) && Parse(words[4], &wanted.delay) &&
                          Parse(words[5], &wanted.jitter) && Parse(words[6], &wanted.loss) &&
                          Parse(words[7], &wanted.queue) && Parse(words[8], &wanted.up);
  if (!understood || wanted.delay < 0 || wanted.jitter < 0) {
    *error = "set wants NAME up|down RATE DELAY JITTER LOSS QUEUE STATE";
    return false;
  }
  Link* link = emulator->Find(words[1], error);
  if (link == nullptr) return false;
  link->ends[words[2] == "up" ? 0 : 1].out.Set(wanted, now);
  return true;
}

bool Stats(Emulator* emulator, const Words& words, std::string* answer, std::string* error) {
  Link* link = words.size() == 2 ? emulator->Find(words[1], error) : nullptr;
  if (link == nullptr) return false;
  std::ostringstream text;
  for (const End& end : link->ends) {
    const Counters& counters = end.out.counters();
    text << ' ' << counters.packets << ' ' << counters.bytes << ' ' << counters.drops << ' '
         << counters.dropped_bytes;
  }
  *answer = text.str();
  return true;
}

}  // namespace

std::string Answer(Emulator* emulator, const std::string& request, int64_t now) {
  const Words words = Split(request);
  const std::string command = words.empty() ? "" : words[0];
  std::string answer;
  std::string error = "unknown command: " + request;
  bool done = false;
  if (command == "add") done = Add(emulator, words, &error);
  if (command == "set") done = Set(emulator, words, now, &error);
  if (command == "stats") done = Stats(emulator, words, &answer, &error);
  if (command == "remove" && words.size() == 2) done = emulator->Remove(words[1], &error);
  return done ? "ok" + answer : "error " + error;
}

}  // namespace satchel::link

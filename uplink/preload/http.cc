// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A program's HTTP comes to uplink before it is encrypted (StoArranger, section V-A1).
//
// libcurl and libneon are told, when a program gives them the address of a service, to ask for it
// in plain HTTP by a proxy at 127.0.0.1, which is uplink. The program goes on to see the service's
// host and paths: in answers, for its passwords and its cookies. Addresses of others are left as
// they are, and so is a proxy that the program has for these.
//
// SATCHEL_UPLINK_PORT      the proxy's
// SATCHEL_UPLINK_SERVICES  what is before the paths of services, with spaces between:
//                          https://cloud.example https://files.example:8443
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <map>
#include <mutex>
#include <set>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kUrl = 10002, kProxy = 10004, kNoProxy = 10177;  // curl/curl.h: CURLoption
constexpr int kEffectiveUrl = 0x100001;                        // CURLINFO
constexpr int kProtocols = 181, kProtocolNames = 10318;
constexpr long kHttp = 1, kHttps = 2;

struct Handle {
  bool ours = false;
  bool has_proxy = false, has_no_proxy = false;
  std::string proxy, no_proxy;  // the program's
};

std::mutex guard;

std::map<void*, Handle>& Handles() {
  static auto* handles = new std::map<void*, Handle>;  // programs use libcurl at their very end
  return *handles;
}

std::set<void*>& Sessions() {
  static auto* sessions = new std::set<void*>;
  return *sessions;
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using Setopt = int (*)(void*, int, ...);

Setopt RealSetopt() {
  static const auto real = Next<Setopt>("curl_easy_setopt");
  return real;
}

const char* Port() { return getenv("SATCHEL_UPLINK_PORT"); }

// Whether SCHEME://AUTHORITY is a service's; a default port is left out of it.
bool IsService(const std::string& origin) {
  const char* services = getenv("SATCHEL_UPLINK_SERVICES");
  if (services == nullptr || Port() == nullptr) return false;
  const std::string all = std::string(" ") + services + " ";
  return strcasestr(all.c_str(), (" " + origin + " ").c_str()) != nullptr;
}

std::string WithoutDefault(const std::string& scheme, const std::string& authority) {
  const std::string port = strcasecmp(scheme.c_str(), "https") == 0 ? ":443" : ":80";
  const bool has = authority.size() > port.size() &&
                   authority.compare(authority.size() - port.size(), port.size(), port) == 0;
  return has ? authority.substr(0, authority.size() - port.size()) : authority;
}

// The address as uplink is asked for it, or nothing where it is no service's.
std::string ForUplink(const std::string& url) {
  const size_t colon = url.find("://");
  if (colon == std::string::npos) return "";
  const std::string scheme = url.substr(0, colon);
  size_t end = url.find_first_of("/?#", colon + 3);
  if (end == std::string::npos) end = url.size();
  const size_t at = url.rfind('@', end);
  const size_t begin = at != std::string::npos && at > colon && at < end ? at + 1 : colon + 3;
  const std::string authority = WithoutDefault(scheme, url.substr(begin, end - begin));
  if (!IsService(scheme + "://" + authority)) return "";
  return "http://" + url.substr(colon + 3, begin - colon - 3) + authority + url.substr(end);
}

// What was asked of uplink, as the program knows it; for good, as libcurl's own string is the
// handle's, and there are no more than addresses.
const char* ForProgram(const std::string& url) {
  static auto* kept = new std::set<std::string>;
  return kept->insert("https" + url.substr(4)).first->c_str();
}

bool IsPlainOfSecure(const std::string& url) {
  if (url.compare(0, 7, "http://") != 0) return false;
  return !ForUplink("https" + url.substr(4)).empty();
}

void SetProxy(void* curl, const Handle& handle) {
  const std::string uplink = std::string("http://127.0.0.1:") + (handle.ours ? Port() : "");
  const char* own = handle.has_proxy ? handle.proxy.c_str() : nullptr;
  const char* around = handle.has_no_proxy ? handle.no_proxy.c_str() : nullptr;
  RealSetopt()(curl, kProxy, handle.ours ? uplink.c_str() : own);
  RealSetopt()(curl, kNoProxy, handle.ours ? "" : around);
}

int SetUrl(void* curl, const char* url) {
  const std::string changed = url != nullptr ? ForUplink(url) : "";
  const std::lock_guard<std::mutex> lock(guard);
  Handle& handle = Handles()[curl];
  if (handle.ours == changed.empty()) {
    handle.ours = !changed.empty();
    SetProxy(curl, handle);
  }
  return RealSetopt()(curl, kUrl, handle.ours ? changed.c_str() : url);
}

// What the program says of proxies holds for what is no service's.
int NoteProxy(void* curl, int option, const char* value) {
  const std::lock_guard<std::mutex> lock(guard);
  Handle& handle = Handles()[curl];
  (option == kProxy ? handle.has_proxy : handle.has_no_proxy) = value != nullptr;
  (option == kProxy ? handle.proxy : handle.no_proxy) = value != nullptr ? value : "";
  return handle.ours ? 0 : RealSetopt()(curl, option, value);
}

// A program that speaks https only may speak http with uplink.
int AllowHttp(void* curl, const char* names) {
  std::string allowed = names != nullptr ? names : "";
  if (strcasestr(allowed.c_str(), "https") != nullptr) allowed += ",http";
  return RealSetopt()(curl, kProtocolNames, names != nullptr ? allowed.c_str() : nullptr);
}

}  // namespace

// Each value is a pointer, a long or a curl_off_t, and of the same size.
static_assert(sizeof(long) == sizeof(void*), "the last argument of curl_easy_setopt is passed on");

EXPORTED int curl_easy_setopt(void* curl, int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  void* value = va_arg(arguments, void*);
  va_end(arguments);
  const char* text = static_cast<const char*>(value);
  if (option == kUrl) return SetUrl(curl, text);
  if (option == kProxy || option == kNoProxy) return NoteProxy(curl, option, text);
  if (option == kProtocolNames) return AllowHttp(curl, text);
  const long mask = reinterpret_cast<long>(value);
  if (option == kProtocols && (mask & kHttps) != 0) {
    return RealSetopt()(curl, option, mask | kHttp);
  }
  return RealSetopt()(curl, option, value);
}

// A program that compares finds the address that it gave: git goes on with this one.
EXPORTED int curl_easy_getinfo(void* curl, int info, ...) {
  static const auto real = Next<int (*)(void*, int, ...)>("curl_easy_getinfo");
  va_list arguments;
  va_start(arguments, info);
  void* place = va_arg(arguments, void*);
  va_end(arguments);
  const int failed = real(curl, info, place);
  if (failed != 0 || info != kEffectiveUrl) return failed;
  const std::lock_guard<std::mutex> lock(guard);
  const char** url = static_cast<const char**>(place);
  const auto found = Handles().find(curl);
  if (found != Handles().end() && found->second.ours && *url != nullptr && IsPlainOfSecure(*url)) {
    *url = ForProgram(*url);
  }
  return failed;
}

EXPORTED void curl_easy_cleanup(void* curl) {
  static const auto real = Next<void (*)(void*)>("curl_easy_cleanup");
  {
    const std::lock_guard<std::mutex> lock(guard);
    Handles().erase(curl);
  }
  real(curl);
}

EXPORTED void curl_easy_reset(void* curl) {
  static const auto real = Next<void (*)(void*)>("curl_easy_reset");
  {
    const std::lock_guard<std::mutex> lock(guard);
    Handles().erase(curl);
  }
  real(curl);
}

EXPORTED void* curl_easy_duphandle(void* curl) {
  static const auto real = Next<void* (*)(void*)>("curl_easy_duphandle");
  void* made = real(curl);
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = Handles().find(curl);
  if (made != nullptr && found != Handles().end()) {
    const Handle same = found->second;
    Handles()[made] = same;
  }
  return made;
}

EXPORTED void* ne_session_create(const char* scheme, const char* host, unsigned int port) {
  static const auto real =
      Next<void* (*)(const char*, const char*, unsigned int)>("ne_session_create");
  static const auto proxy = Next<void (*)(void*, const char*, unsigned int)>("ne_session_proxy");
  const std::string place = std::string(host) + ":" + std::to_string(port);
  if (!IsService(std::string(scheme) + "://" + WithoutDefault(scheme, place))) {
    return real(scheme, host, port);
  }
  void* session = real("http", host, port == 443 && strcasecmp(scheme, "https") == 0 ? 80 : port);
  proxy(session, "127.0.0.1", static_cast<unsigned int>(atoi(Port())));
  const std::lock_guard<std::mutex> lock(guard);
  Sessions().insert(session);
  return session;
}

EXPORTED void ne_session_destroy(void* session) {
  static const auto real = Next<void (*)(void*)>("ne_session_destroy");
  {
    const std::lock_guard<std::mutex> lock(guard);
    Sessions().erase(session);
  }
  real(session);
}

// There is no TLS in a session with uplink.
EXPORTED void ne_ssl_trust_default_ca(void* session) {
  static const auto real = Next<void (*)(void*)>("ne_ssl_trust_default_ca");
  {
    const std::lock_guard<std::mutex> lock(guard);
    if (Sessions().count(session) != 0) return;
  }
  real(session);
}

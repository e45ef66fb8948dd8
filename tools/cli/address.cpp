#include "tools/cli/address.h"

#include "runtime/base/address.h"
#include "runtime/base/suggest.h"
#include "tools/cli/flag_values.h"

namespace troupe {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

Address parse_host_and_port(std::string_view flag, const std::string& text, int64_t lowest_port) {
  const std::string example = "expected HOST:PORT, like 127.0.0.1:5555";
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    refuse_flag(flag, '"' + printable(text) + (is_number(text) ? "\" has no host, " : "\" has no port, ") + example);
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) refuse_flag(flag, '"' + printable(text) + "\" has no host, " + example);
  if (!bracketed && host.find(':') != std::string::npos)
    refuse_flag(flag, '"' + printable(text) + "\" has several colons, an IPv6 address needs brackets, like [::1]:5555");
  const size_t odd = host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%");
  if (odd != std::string::npos || host.size() > 253)
    refuse_flag(flag, '"' + printable(host) + "\" is not a host name, " + example);
  const int64_t port = parse_integer(std::string(flag) + " port", text.substr(colon + 1), lowest_port, 65535);
  return {host, static_cast<uint16_t>(port)};
}

}  // namespace

std::string Address::text() const { return address_text(host, port); }

Address parse_address(std::string_view flag, const std::string& text) { return parse_host_and_port(flag, text, 1); }

Address parse_listen_address(std::string_view flag, const std::string& text) {
  if (is_number(text)) return parse_host_and_port(flag, kLoopbackAnyPort.host + ':' + text, 0);
  if (text.find(':') == std::string::npos)
    refuse_flag(flag,
                '"' + printable(text) + "\" has no port, expected HOST:PORT or a port, like 127.0.0.1:5555 or 5555");
  return parse_host_and_port(flag, text, 0);
}

bool is_any_address(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

std::string address_for_others(const Address& address, const std::string& this_host) {
  if (!is_any_address(address.host)) return address.text();
  const bool named = !this_host.empty() && !this_host.starts_with("localhost");
  return Address{named ? this_host : "HOST", address.port}.text();
}

}  // namespace troupe

// Files that the program carries inside itself: the assembler puts them into the library when it is
// built, so that nothing has to be installed or found at run time.
//
// KVPHASE_EMBED(space, name, path) defines std::string_view space::name(). path is a string
// literal, usually pasted from a compile definition; list the file under OBJECT_DEPENDS in CMake.
#pragma once

#include <string_view>

#define KVPHASE_EMBED(space, name, path)                                        \
  asm(".section .rodata\n" #name "_begin:\n.incbin \"" path "\"\n" #name        \
      "_end:\n.byte 0\n.previous\n");                                           \
  extern "C" __attribute__((visibility("hidden"))) const char name##_begin[];   \
  extern "C" __attribute__((visibility("hidden"))) const char name##_end[];     \
  namespace space {                                                             \
  std::string_view name() {                                                     \
    return {name##_begin, static_cast<std::size_t>(name##_end - name##_begin)}; \
  }                                                                             \
  }

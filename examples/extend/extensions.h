// The three extensions of this project. A context takes each of them (main.cc).

#pragma once

#include <penstock/extend/codec.h>
#include <penstock/extend/driver.h>
#include <penstock/extend/scheme.h>

#include <memory>

std::shared_ptr<const penstock::codec_provider> run_length_codecs();  // the codec `run_length`
std::shared_ptr<const penstock::format_driver> pgm_format();          // grey images: x.pgm
std::shared_ptr<const penstock::uri_scheme> toy_scheme();             // toy:NAME/PATH, in this process's memory

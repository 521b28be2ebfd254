#!/bin/bash
# For each flush that is left out, a crash test fails (docs/testing.md).
exec "$(dirname "$0")/../flush_sites.sh"

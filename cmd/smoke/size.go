package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the suffixes of parseSize in lower case. As in GNU's tools, K alone
// is 1024, KiB says so, and KB is 1000.
var sizeUnits = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

// parseSize reads a number of bytes such as 4096, 4KiB or "1 MiB".
func parseSize(text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	digits := len(trimmed) - len(strings.TrimLeft(trimmed, "0123456789"))
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(trimmed[digits:]))]
	if digits == 0 || !known {
		return 0, fmt.Errorf("%q is not a size; write a whole number of bytes, or one with a unit such as 4KiB or 1MiB", text)
	}
	n, err := strconv.ParseInt(trimmed[:digits], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is more than 2^63-1 bytes", text)
	}
	return n * unit, nil
}

// formatSize writes a number of bytes in the largest unit that leaves a number of 1
// or more, with one decimal where it is not whole.
func formatSize(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	unit, names := int64(1), []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for n/unit >= 1024 && len(names) > 1 {
		unit *= 1024
		names = names[1:]
	}
	if n%unit == 0 {
		return fmt.Sprintf("%d %s", n/unit, names[0])
	}
	return fmt.Sprintf("%.1f %s", float64(n)/float64(unit), names[0])
}

package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "4KiB": 4096, "4kib": 4096, " 4 KiB ": 4096, "4k": 4096, "4KB": 4000, "1MiB": 1 << 20,
		"2GiB": 2 << 30, "7B": 7, "9223372036854775807": math.MaxInt64, "007": 7,
	} {
		got, err := parseSize(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "KiB", "-1", "+1", "1.5KiB", "4 096", "4TiBs", "0x10", "9223372036854775808", "9007199254740992KiB", "1e3"} {
		_, err := parseSize(text)
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), fmt.Sprintf("%q", text))
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 4096: "4 KiB", 5000: "4.9 KiB", 256 << 20: "256 MiB", 3 << 40: "3 TiB", math.MaxInt64: "8192.0 PiB",
	} {
		assert.Equal(t, want, formatSize(n))
	}
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"4096", "4KiB", "1 MiB", "9223372036854775807", "-1", "", "1e9", "٣"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseSize(text)
		if err != nil {
			require.Zero(t, n)
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
		again, err := parseSize(fmt.Sprint(n))
		require.NoError(t, err)
		require.Equal(t, n, again)
	})
}

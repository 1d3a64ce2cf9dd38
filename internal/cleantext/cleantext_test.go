package cleantext

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/internal/allocs"
)

func TestString(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"NVIDIA H200":                     "NVIDIA H200",
		`C:\cuda\bin "x"`:                 `C:\cuda\bin "x"`,
		"日本 é Ω 🙂 �":                      "日本 é Ω 🙂 �",
		"a\x1b[31mred\x1b[0m":             `a\x1b[31mred\x1b[0m`,
		"\x1b]0;title\a":                  `\x1b]0;title\a`,
		"a\nb\r\tc\x00\x7f":               `a\nb\r\tc\x00\x7f`,
		"\u009b31m\u0085":                 `\u009b31m\u0085`,
		"\x9b31m":                         `\x9b31m`,
		"cut \xe6\x97":                    `cut \xe6\x97`,
		"\xed\xa0\x80":                    `\xed\xa0\x80`, // half of a surrogate pair
		"\u202efdp.exe\u2066\u200e":       `\u202efdp.exe\u2066\u200e`,
		"a\u2028b\u2029c":                 `a\u2028b\u2029c`,
		"a\u200bb\ufeffc\u00a0d\u00ade":   `a\u200bb\ufeffc\u00a0d\u00ade`,
		"\U000e0041":                      `\U000e0041`,
		strings.Repeat("x", 1e6) + "\x1b": strings.Repeat("x", 1e6) + `\x1b`,
	} {
		assert.Equal(t, want, String(text), "%.100q", text)
	}
}

// Text that prints is the usual case, and costs nothing.
func TestCleanTextIsNotCopied(t *testing.T) {
	allocs.AtMost(t, 0, 100, func() { _ = String("NVIDIA H100 80GB HBM3") })
}

func FuzzString(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x1b[2J", "\u009b", "\xff", "\u202e", "a\\b", "\U0010ffff", "\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean := String(s)
		assert.True(t, utf8.ValidString(clean))
		for _, r := range clean {
			if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
				t.Fatalf("%q leaves %U of %q", clean, r, s)
			}
		}
		assert.Equal(t, clean, String(clean), "cleaning twice")
		assert.GreaterOrEqual(t, len(clean), len(s))
		if !strings.ContainsAny(s, "\\\"") { // then the way back is clear
			back, err := strconv.Unquote(`"` + clean + `"`)
			assert.NoError(t, err)
			assert.Equal(t, s, back)
		}
	})
}

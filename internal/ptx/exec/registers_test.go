package exec

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/ptx"
)

// compileBody compiles a kernel and returns what is wrong with it.
func compileBody(body string) error {
	m, err := ptx.Parse([]byte(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() {\n" + body + "\nret;\n}\n"))
	if err == nil {
		_, err = compileAll(m)
	}
	return err
}

// TestRegisterTypes: registers.txt has what NVIDIA's assembler takes.
func TestRegisterTypes(t *testing.T) {
	text, err := os.ReadFile("testdata/registers.txt")
	require.NoError(t, err)
	types := strings.Fields("b16 u16 s16 f16 b32 u32 s32 f32 b64 u64 s64 f64")
	operand := regexp.MustCompile(`<[^>]*>|\bpred\b`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		taken := operand.FindAllString(line, -1)
		n := -1
		instruction := operand.ReplaceAllStringFunc(line, func(string) string { n++; return fmt.Sprintf("%%q%d", n) })
		for at := range taken {
			if taken[at] == "pred" {
				continue
			}
			want := strings.Split(strings.Trim(taken[at], "<>"), "/")
			for _, typ := range types {
				var body strings.Builder
				for i := range taken {
					first, _, _ := strings.Cut(strings.Trim(taken[i], "<>"), "/")
					if i == at {
						first = typ
					}
					fmt.Fprintf(&body, ".reg .%s %%q%d;\n", first, i)
				}
				err := compileBody(body.String() + instruction + ";")
				if slices.Contains(want, typ) {
					assert.NoError(t, err, "%s: .%s as operand %d", line, typ, at)
				} else {
					assert.Error(t, err, "%s: .%s as operand %d", line, typ, at)
				}
			}
		}
	}
}

func TestRegisterTypesInWords(t *testing.T) {
	for _, c := range []struct{ body, text string }{
		{".reg .f64 %d;\n.reg .b64 %a;\nadd.u64 %d, %a, 1;", "line 7: kernel k: add.u64: register %d of type .f64 does not take a result of type .u64"},
		{".reg .f32 %f;\n.reg .u32 %u;\nadd.f32 %f, %f, %u;", "line 7: kernel k: add.f32: register %u of type .u32 is not an operand of type .f32"},
		{".reg .b64 %d;\n.reg .b32 %a;\nadd.u32 %d, %a, 1;", "register %d of type .b64 does not take a result of type .u32"},
		{".reg .f64 %a;\n.reg .b32 %d;\nld.global.u32 %d, [%a];", "register %a of type .f64 is not an address"},
		{".reg .f32 %f;\n\nadd.f32 %f, %f, 1;", "an integer is not an operand of type .f32: write 0f3f800000"},
		{".reg .u32 %u;\n\nmov.u32 %u, 0f3f800000;", "a floating-point number is not an operand of type .u32"},
	} {
		assert.ErrorContains(t, compileBody(c.body), c.text)
	}
}

package locks

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table of docs/architecture.md has the locks in their order, and says what may be done under them.
func TestTheTableOfTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Skipf("the documents are not there: %v", err)
	}
	var want, got []string
	for _, l := range order {
		may := map[bool]string{false: "no", true: "yes"}[l.blocks]
		want = append(want, strings.TrimPrefix(fmt.Sprintf("%T", l.of), "locks.")+" "+may)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `locks\\.(\\w+)` \\|.*\\| (\\w+) \\|$").FindAllStringSubmatch(string(text), -1) {
		got = append(got, row[1]+" "+row[2])
	}
	require.NotEmpty(t, got)
	assert.Equal(t, want, got)
	assert.LessOrEqual(t, len(order), 64, "the places are bits of a word")
}

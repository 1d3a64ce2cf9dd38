package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTable(t *testing.T) {
	type result int32
	all := Table[result]{Prefix: "NONE_", Known: map[result][2]string{3: {"NONE_BROKEN", "it is broken"}}}
	assert.Equal(t, "NONE_BROKEN (3): it is broken", all.Error(3))
	assert.Equal(t, "NONE_4 (4): a result that is newer than this program", all.Error(4))
}

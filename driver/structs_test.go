package driver

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLaunchAttributes(t *testing.T) {
	assert.Equal(t, Dim3{2, 3, 4}, ClusterSize(Dim3{2, 3, 4}).Cluster())
	assert.Equal(t, LaunchAttributeCooperative, Cooperative().ID)
	minus := LaunchPriority(-2)
	assert.EqualValues(t, -2, int32(minus.value[0]))
}

func TestStrings(t *testing.T) {
	assert.Equal(t, "12.2", Version(12020).String())
	assert.Equal(t, "1x2x3", Dim3{1, 2, 3}.String())
	u := UUID{0xd0, 0x40, 0x15, 0x66, 0x1f, 0x7a, 0x17, 0x4e, 0xcc, 0xb2, 0x9e, 0xa7, 0xf2, 0x87, 0x9f, 0x77}
	assert.Equal(t, "d0401566-1f7a-174e-ccb2-9ea7f2879f77", u.String())
}

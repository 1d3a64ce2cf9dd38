package status

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTable(t *testing.T) {
	type result int32
	all := Of("None", "NONE_", "nonetest", map[result][2]string{3: {"NONE_BROKEN", "it is broken"}})
	assert.Equal(t, "NONE_BROKEN (3): it is broken", all.Error(3))
	assert.Equal(t, "NONE_4 (4): a result that is newer than this program", all.Error(4))
	assert.Equal(t, "symbol missing (-1): this None does not have the function", all.Error(SymbolMissing))
	assert.Equal(t, "impossible value (-2): None returned what cannot be true", all.Error(ImpossibleValue))
	assert.Contains(t, all.Error(NoKernels), "drivertest.Config{Kernels: nonetest.Kernels()}")
}

func TestReturned(t *testing.T) {
	type result int32
	assert.Equal(t, result(7), Returned[result](^uintptr(0)&^math.MaxUint32|7), "the upper half is undefined")
	assert.Equal(t, result(ImpossibleValue), Returned[result](uintptr(math.MaxUint32-8)))
	assert.Equal(t, result(0), Within(result(0), 5, 5, 6))
	assert.Equal(t, result(ImpossibleValue), Within(result(0), 4, 5, 6))
	assert.Equal(t, result(ImpossibleValue), Within(result(0), 7, 5, 6))
	assert.Equal(t, result(3), Within(result(3), 7, 5, 6), "it has failed anyway")
	assert.Equal(t, result(ImpossibleValue), NotZero(result(0), uintptr(0)))
	assert.Equal(t, result(0), NotZero(result(0), uintptr(1)))
	assert.Equal(t, result(3), NotZero(result(3), uintptr(0)))
}

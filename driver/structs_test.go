package driver

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The structures of C and the fields of ours, in the order of memory. testdata/
// abi_check.c holds the same numbers, and a host with cuda.h compares them.
func TestABICheckMatchesStructs(t *testing.T) {
	text, err := os.ReadFile("testdata/abi_check.c")
	require.NoError(t, err)
	check := string(text)
	for _, s := range []struct {
		c      string
		typ    reflect.Type
		fields string // pairs of our field and C's
	}{
		{"CUDA_MEMCPY2D", reflect.TypeFor[MemcpyRect](), "SrcX srcXInBytes SrcY srcY SrcType srcMemoryType SrcHost srcHost SrcDevice srcDevice srcArray srcArray SrcPitch srcPitch DstX dstXInBytes DstY dstY DstType dstMemoryType DstHost dstHost DstDevice dstDevice dstArray dstArray DstPitch dstPitch Bytes WidthInBytes Height Height"},
		{"CUmemLocation", reflect.TypeFor[MemLocation](), "Type type ID id"},
		{"CUmemPoolProps", reflect.TypeFor[MemPoolProps](), "AllocType allocType HandleTypes handleTypes Location location win32Security win32SecurityAttributes MaxBytes maxSize usage usage reserved reserved"},
		{"CUmemAccessDesc", reflect.TypeFor[MemAccess](), "Location location Flags flags"},
		{"CUgraphExecUpdateResultInfo", reflect.TypeFor[GraphExecUpdateInfo](), "Result result ErrorNode errorNode ErrorFromNode errorFromNode"},
		{"CUlaunchAttribute", reflect.TypeFor[LaunchAttribute](), "ID id value value"},
		{"CUlaunchConfig", reflect.TypeFor[launchConfig](), "grid gridDimX block blockDimX sharedBytes sharedMemBytes stream hStream attributes attrs attributeCount numAttrs"},
	} {
		assert.Contains(t, check, fmt.Sprintf("SIZE(%s, %d);", s.c, s.typ.Size()))
		names := strings.Fields(s.fields)
		for i := 0; i < len(names); i += 2 {
			f, ok := s.typ.FieldByName(names[i])
			require.True(t, ok, "%s.%s", s.c, names[i])
			assert.Contains(t, check, fmt.Sprintf("OFFSET(%s, %s, %d);", s.c, names[i+1], f.Offset))
		}
		for i := range s.typ.NumField() {
			if name := s.typ.Field(i).Name; name != "_" {
				assert.Contains(t, " "+s.fields, " "+name+" ", "%s: field %s is not compared", s.c, name)
			}
		}
	}
	assert.EqualValues(t, 64, unsafe.Sizeof(IpcMemHandle{}))
	assert.EqualValues(t, 64, unsafe.Sizeof(IpcEventHandle{}))
	assert.EqualValues(t, 16, unsafe.Sizeof(UUID{}))
}

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

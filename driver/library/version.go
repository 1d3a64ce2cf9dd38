package library

import (
	"fmt"

	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
)

// Version of a library: major, minor, patch. All are 0 if it is not known.
type Version [3]int

func (v Version) String() string {
	if v == (Version{}) {
		return "of an unknown version"
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}

// Since is the version that has brought something: major and minor.
type Since [2]int

func (s Since) String() string { return fmt.Sprintf("%d.%d", s[0], s[1]) }

// Before tells whether v is older. One that is not known is not.
func (v Version) Before(s Since) bool {
	return v != (Version{}) && (v[0] < s[0] || v[0] == s[0] && v[1] < s[1])
}

// versionOf asks a library that was opened for its version. It is 0.0.0 where it does not tell.
func (d Description) versionOf(lib *dl.Library) (v Version) {
	if fn := lib.Symbol(d.Number); d.Number != "" && fn != 0 {
		var number int32
		var c struct {
			ffi.Frame
			number *int32
			_      [ffi.RegisterWords - 1]uintptr
		}
		c.number = &number
		if int32(c.Call(fn, 1)) == 0 && number > 0 {
			n := int(number)
			v = Version{n / 10000, n / 100 % 100, n % 100}
		}
		return v
	}
	if fn := lib.Symbol(d.Pair); d.Pair != "" && fn != 0 {
		var major, minor int32
		var c struct {
			ffi.Frame
			major, minor *int32
			_            [ffi.RegisterWords - 2]uintptr
		}
		c.major, c.minor = &major, &minor
		if int32(c.Call(fn, 2)) == 0 && major > 0 && minor >= 0 {
			v = Version{int(major), int(minor)}
		}
		return v
	}
	fn := lib.Symbol(d.Property)
	if d.Property == "" || fn == 0 {
		return v
	}
	for i := range v {
		var value int32
		var c struct {
			ffi.Frame
			property uintptr
			value    *int32
			_        [ffi.RegisterWords - 2]uintptr
		}
		c.property, c.value = uintptr(i), &value
		if int32(c.Call(fn, 2)) != 0 || value < 0 {
			return Version{}
		}
		v[i] = int(value)
	}
	return v
}

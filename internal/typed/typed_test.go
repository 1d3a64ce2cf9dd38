package typed_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/typed"
)

type part struct {
	Name string
	At   time.Time
	Left *part
}

type query struct {
	Name   string
	Values []float64
	Parts  map[string]*part
	Exact  *big.Int
}

type shape interface{ Area() float64 }

type square struct{ Side float64 }

func (s square) Area() float64 { return s.Side * s.Side }

type disc struct{ Radius float64 }

func (d disc) Area() float64 { return 3 * d.Radius * d.Radius }

type drawing struct{ Shapes []shape }

// broken fails in the middle of a value.
type broken string

func (b broken) MarshalBinary() ([]byte, error) {
	if b != "" {
		return nil, errors.New("it says " + string(b))
	}
	return nil, nil
}

func (b *broken) UnmarshalBinary([]byte) error { return nil }

func init() {
	gob.Register(square{})
	gob.Register(disc{})
}

func values() map[string][]any {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return map[string][]any{
		"numbers": {ptr(3), ptr(-4), ptr(0)},
		"structs": {&query{}, &query{Name: "a", Values: []float64{1, 2}}, &query{Parts: map[string]*part{"x": {"y", at, &part{Name: "z"}}}, Exact: big.NewInt(1 << 60)}, &query{Name: "b"}},
		"maps":    {&map[string][]int{"a": {1}}, &map[string][]int{}, &map[string][]int{"b": nil, "c": {2, 3}}},
		"pointer": {ptr(ptr(5)), ptr(ptr(6))},
		"interfaces, of which each message describes its own": {&drawing{[]shape{square{1}}}, &drawing{[]shape{disc{1}, square{2}}}, &drawing{[]shape{square{3}}}},
		"large": {&query{Values: make([]float64, 100_000)}, &query{Name: "small"}},
	}
}

func ptr[T any](v T) *T { return &v }

// A codec that has made and read values before makes and reads the same as a new one, also from a sender that is new.
func TestStandard(t *testing.T) {
	for name, list := range values() {
		t.Run(name, func(t *testing.T) {
			kept := typed.Choose[typed.Codec](nil)
			for range 3 {
				for _, v := range list {
					fresh := typed.Choose[typed.Codec](nil)
					for _, c := range [][2]typed.Codec{{kept, kept}, {kept, fresh}, {fresh, kept}, {kept, kept}} {
						data, err := typed.Encode(c[0], v)
						require.NoError(t, err)
						got := reflect.New(reflect.TypeOf(v).Elem()).Interface()
						require.NoError(t, typed.Decode(c[1], data, got))
						want := reflect.New(reflect.TypeOf(v).Elem()).Interface()
						var b bytes.Buffer
						require.NoError(t, gob.NewEncoder(&b).Encode(v))
						require.NoError(t, gob.NewDecoder(&b).Decode(want))
						assert.Equal(t, want, got)
					}
				}
			}
		})
	}
}

// What fails leaves nothing behind for the next value.
func TestNilPointers(t *testing.T) {
	type holder struct{ P *int }
	s := new(typed.Standard)
	for _, v := range []any{new(*int), new(**int), new(*query), (*int)(nil)} {
		data, err := typed.Encode(s, v)
		assert.Nil(t, data)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "nil pointer, which gob cannot send")
	}
	data, err := typed.Encode(s, &holder{})
	require.NoError(t, err)
	var got holder
	require.NoError(t, typed.Decode(s, data, &got))
	assert.Nil(t, got.P)
}

func TestStandardAfterFailures(t *testing.T) {
	c := typed.Choose[typed.Codec](nil)
	for range 3 {
		_, err := typed.Encode(c, &struct{ A, B broken }{"", "no"})
		assert.ErrorContains(t, err, "it says no")
		_, err = typed.Encode(c, &struct{ A, B broken }{})
		assert.NoError(t, err)
		data, err := typed.Encode(c, new(*int)) // gob sends nothing of it
		if err == nil {
			err = typed.Decode(c, data, new(*int))
		}
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		data, err = typed.Encode(c, &query{Name: "right", Values: []float64{1}})
		require.NoError(t, err)
		for n := range len(data) - 1 {
			assert.Error(t, typed.Decode(c, append(data[:n:n], 2), new(query)), n)
			assert.Error(t, typed.Decode(c, data[:n:n], new(query)), n)
		}
		assert.Error(t, typed.Decode(c, append(data[:len(data)-1:len(data)-1], 0, 2), new(query)), "more than a value")
		assert.ErrorIs(t, typed.Decode(c, append(data[:len(data)-1:len(data)-1], 1), new(query)), driver.ErrInvalidArgument, "of another version")
		assert.Error(t, typed.Decode(c, data, new(map[int]string)), "another type")
		var got query
		require.NoError(t, typed.Decode(c, data, &got))
		assert.Equal(t, query{Name: "right", Values: []float64{1}}, got)
	}
}

// Senders that describe a type in ever new ways get no more memory than so many.
func TestManySenders(t *testing.T) {
	c := typed.Choose[typed.Codec](nil)
	data, err := typed.Encode(c, &struct{ Name string }{"x"})
	require.NoError(t, err)
	for i := range 200 {
		at := bytes.Index(data, []byte("Name"))
		require.Positive(t, at)
		other := bytes.Clone(data)
		copy(other[at:], []byte{'N', byte('a' + i%26), byte('a' + i/26), 'e'})
		var got struct{ Name string }
		err := typed.Decode(c, other, &got)
		if err == nil {
			assert.Equal(t, "x", got.Name, "%q", other)
		}
		assert.NoError(t, typed.Decode(c, data, &got))
	}
}

func TestStandardAtTheSameTime(t *testing.T) {
	c := typed.Choose[typed.Codec](nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				want := query{Name: strings.Repeat("n", i+j), Values: []float64{float64(i), float64(j)}}
				data, err := typed.Encode(c, &want)
				var got query
				if assert.NoError(t, err) && assert.NoError(t, typed.Decode(c, data, &got)) {
					assert.Equal(t, want, got)
				}
			}
		})
	}
	all.Wait()
}

// Nothing that another process sends panics, or is another value than a new decoder reads.
func FuzzDecode(f *testing.F) {
	seed := typed.Choose[typed.Codec](nil)
	for _, v := range []any{&query{Name: "a", Values: []float64{1}}, &drawing{[]shape{square{1}}}} {
		data, err := typed.Encode(seed, v)
		require.NoError(f, err)
		f.Add(data)
	}
	good, err := typed.Encode(seed, &query{Name: "right", Values: []float64{1}})
	require.NoError(f, err)
	c := typed.Choose[typed.Codec](nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, of := range []any{new(query), new(drawing), new(int), new(map[string]any)} {
			got, want := reflect.New(reflect.TypeOf(of).Elem()).Interface(), reflect.New(reflect.TypeOf(of).Elem()).Interface()
			err := typed.Decode(c, data, got)
			fresh := typed.Decode(typed.Choose[typed.Codec](nil), data, want)
			assert.Equal(t, fresh == nil, err == nil, "%v, %v", fresh, err)
		}
		var got query
		require.NoError(t, typed.Decode(c, good, &got))
		assert.Equal(t, query{Name: "right", Values: []float64{1}}, got)
	})
}

func BenchmarkStandard(b *testing.B) {
	c := typed.Choose[typed.Codec](nil)
	type query struct {
		Name   string
		Values []float64
	}
	v := query{"x", []float64{1}}
	b.ReportAllocs()
	for b.Loop() {
		data, err := typed.Encode(c, &v)
		if err != nil {
			b.Fatal(err)
		}
		var got query
		if err := typed.Decode(c, data, &got); err != nil {
			b.Fatal(err)
		}
	}
}

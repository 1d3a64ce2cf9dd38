package pool

import (
	"math/bits"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// call is a set of the functions that take options.
type call uint8

const (
	ofOpen call = 1 << iota
	ofDo
	ofNewBatcher
	ofScatter
	ofMap
	ofReduce
	ofCPU

	ofDevices = ofScatter | ofMap | ofReduce
	ofRequest = ofDo | ofNewBatcher
	ofEvery   = ofOpen | ofRequest | ofDevices
)

var callNames = [...]string{"Open", "Do", "NewBatcher", "Scatter", "Map", "Reduce", "CPU"}

// option is a row of takers.
type option uint8

const (
	optSetup option = iota
	optDeviceSetup
	optStreams
	optQueue
	optQuota
	optRemote
	optHealth
	optDevices
	optWithoutDevices
	optRetry
	optQueueWait
	optCost
	optPriority
	optBreakEven
	optDeadline
	optReserve
	optWithoutQueue
	optItems
	optDoFallback
	optWeights
	optThroughput
	optMinPerDevice
	optSizeGate
	optChunk
	optGrain
	optItemBytes
	optFallback
	optMapFallback
	optReduceFallback
)

// takers says which calls take an option. Open takes those of calls for which a default can make sense.
var takers = [...]struct {
	name  string
	calls call
}{
	optSetup:          {"WithSetup", ofOpen},
	optDeviceSetup:    {"WithDeviceSetup", ofOpen},
	optStreams:        {"WithStreams", ofOpen},
	optQueue:          {"WithQueue", ofOpen},
	optQuota:          {"WithQuota", ofOpen},
	optRemote:         {"WithRemote", ofOpen},
	optHealth:         {"WithHealth", ofOpen},
	optDevices:        {"WithDevices", ofEvery},
	optWithoutDevices: {"WithoutDevices", ofEvery},
	optRetry:          {"WithRetry", ofEvery},
	optQueueWait:      {"WithQueueWait", ofEvery},
	optCost:           {"WithCost", ofEvery},
	optPriority:       {"WithPriority", ofEvery},
	optBreakEven:      {"WithBreakEven", ofEvery},
	optDeadline:       {"WithDeadline", ofDo | ofDevices},
	optReserve:        {"WithReserve", ofOpen | ofRequest},
	optWithoutQueue:   {"WithoutQueue", ofOpen | ofRequest},
	optItems:          {"WithItems", ofDo},
	optDoFallback:     {"WithDoFallback", ofDo},
	optWeights:        {"WithWeights", ofOpen | ofDevices},
	optThroughput:     {"WithThroughput", ofOpen | ofDevices},
	optMinPerDevice:   {"WithMinPerDevice", ofOpen | ofDevices},
	optSizeGate:       {"WithSizeGate", ofOpen | ofDevices},
	optChunk:          {"WithChunk", ofOpen | ofDevices | ofCPU},
	optGrain:          {"WithGrain", ofOpen | ofDevices | ofCPU},
	optItemBytes:      {"WithItemBytes", ofOpen | ofDevices | ofCPU},
	optFallback:       {"WithFallback", ofScatter},
	optMapFallback:    {"WithMapFallback", ofMap},
	optReduceFallback: {"WithReduceFallback", ofReduce},
}

// optionSet is a set of options.
type optionSet uint32

func (s *optionSet) add(o option) { *s |= 1 << o }

// check returns the error if a call does not take an option of the set.
func (s optionSet) check(c call) error {
	for ; s != 0; s &= s - 1 {
		if o := takers[bits.TrailingZeros32(uint32(s))]; o.calls&c == 0 {
			return driver.Errorf(driver.ErrInvalidArgument, "%s is an option of %v, and not of %v", o.name, o.calls, c)
		}
	}
	return nil
}

// String names the calls.
func (c call) String() string {
	var names []string
	for i, name := range callNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

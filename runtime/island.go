package runtime

import (
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// findLinks sets the Links of all devices. A pair of which the driver does not tell has none.
func findLinks(api driver.API, devices []Device) {
	for i := range devices {
		for j := range devices {
			if i != j && devices[i].reaches(api, devices[j]) && devices[j].reaches(api, devices[i]) {
				devices[i].Links = append(devices[i].Links, devices[j].Ordinal)
			}
		}
	}
}

func (d Device) reaches(api driver.API, peer Device) bool {
	if d.Err != nil || peer.Err != nil {
		return false
	}
	can, r := api.DeviceCanAccessPeer(d.handle, peer.handle)
	return r == driver.Success && can != 0
}

// Islands groups devices by their Links: each device of an island has a link to each other one. The first device begins an island,
// and each next one joins the first island in which it has all links. The island with the largest sum of scores comes first. Devices that
// do not work, or are in quarantine, are in none.
func Islands(devices []Device) [][]Device {
	var islands [][]Device
	for _, d := range devices {
		if d.Err != nil || d.Quarantine != nil {
			continue
		}
		at := slices.IndexFunc(islands, func(island []Device) bool {
			return !slices.ContainsFunc(island, func(o Device) bool { return !slices.Contains(d.Links, o.Ordinal) })
		})
		if at < 0 {
			at, islands = len(islands), append(islands, nil)
		}
		islands[at] = append(islands[at], d)
	}
	worth := func(island []Device) (sum float64) {
		for _, d := range island {
			sum += d.Score
		}
		return sum
	}
	slices.SortStableFunc(islands, func(a, b []Device) int {
		switch x, y := worth(a), worth(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0 // also where a score of the program is no number
	})
	return islands
}

// OneIsland chooses the devices of the first of the [Islands] of a runtime, as they are now. It is for Suits of package pool, in Open or in a call: work
// whose devices copy to each other stays where they have links. Ask again for each call where devices may fail. Where no device works it
// chooses all, so that the error says why.
func (rt *Runtime) OneIsland() func(Device) bool {
	islands := Islands(rt.Devices())
	if len(islands) == 0 {
		return func(Device) bool { return true }
	}
	return func(d Device) bool {
		return slices.ContainsFunc(islands[0], func(o Device) bool { return o.Ordinal == d.Ordinal })
	}
}

package drivertest

import "github.com/purecuda/purecuda/driver"

// ptxVersions are the newest PTX versions that CUDA versions read, as 10*major +
// minor. A version that is not listed reads what the one before reads.
var ptxVersions = []struct {
	cuda driver.Version
	ptx  int
}{
	{9000, 60}, {9010, 61}, {9020, 62}, {10000, 63}, {10010, 64}, {10020, 65},
	{11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76}, {11070, 77}, {11080, 78},
	{12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88},
	{13000, 90}, {13010, 91},
}

// newestPTX returns the newest PTX version that a driver reads.
func newestPTX(v driver.Version) int {
	newest := ptxVersions[0].ptx
	for _, known := range ptxVersions {
		if known.cuda <= v {
			newest = known.ptx
		}
	}
	return newest
}

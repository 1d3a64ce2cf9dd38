package runtime

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// portableCluster is the number of blocks in a cluster that every device with clusters
// takes. For more the kernel has to be asked.
const portableCluster = 8

// clusterLimits are what is known of a kernel's clusters since the first launch with one.
type clusterLimits struct {
	known    atomic.Bool
	required Dim3 // that the kernel was compiled for, or zero
	large    atomic.Bool
}

// checkCluster compares the cluster of a launch with the grid and with what the device
// and the kernel allow, and asks for a large one.
func (k *Kernel) checkCluster(shape *Shape) error {
	cluster, grid := &shape.Cluster, shape.Grid
	cluster.X, cluster.Y, cluster.Z = max(cluster.X, 1), max(cluster.Y, 1), max(cluster.Z, 1)
	if d := &k.ctx.device; !d.ClusterLaunch {
		if d.Capability.Major >= 9 {
			return k.unsupported("cluster %v: the driver launches no clusters on this device", *cluster)
		}
		return k.unsupported("cluster %v: the device has no clusters; they came with compute capability 9.0, and this is %v",
			*cluster, d.Capability)
	}
	if grid.X%cluster.X != 0 || grid.Y%cluster.Y != 0 || grid.Z%cluster.Z != 0 {
		return k.invalid("grid %v is not a multiple of cluster %v", grid, *cluster)
	}
	if err := k.queryCluster(); err != nil {
		return err
	}
	if required := k.cluster.required; required != (Dim3{}) && required != *cluster {
		return k.invalid("cluster %v: the kernel was compiled for %v", *cluster, required)
	}
	if uint64(cluster.X)*uint64(cluster.Y)*uint64(cluster.Z) > portableCluster {
		return k.grantLargeCluster()
	}
	return nil
}

func (k *Kernel) queryCluster() error {
	l := &k.cluster
	if l.known.Load() {
		return nil
	}
	k.grant.mu.Lock()
	defer k.grant.mu.Unlock()
	if l.known.Load() {
		return nil
	}
	return k.call(func() error {
		var required [3]uint32
		for i, attribute := range []driver.FunctionAttribute{driver.FunctionAttributeRequiredClusterWidth,
			driver.FunctionAttributeRequiredClusterHeight, driver.FunctionAttributeRequiredClusterDepth} {
			v, r := k.ctx.api.FuncGetAttribute(attribute, k.function)
			if r != driver.Success {
				return k.ctx.bind.Failed("cuFuncGetAttribute", r)
			}
			required[i] = uint32(max(v, 0))
		}
		if required[0] > 0 {
			l.required = Dim3{X: required[0], Y: max(required[1], 1), Z: max(required[2], 1)}
		}
		l.known.Store(true)
		return nil
	})
}

// grantLargeCluster asks for more blocks in a cluster than every device has. How many
// there may be is the driver's to say.
func (k *Kernel) grantLargeCluster() error {
	if k.cluster.large.Load() {
		return nil
	}
	return k.call(func() error {
		r := k.ctx.api.FuncSetAttribute(k.function, driver.FunctionAttributeNonPortableClusterSizeAllowed, 1)
		k.cluster.large.Store(r == driver.Success)
		return k.ctx.bind.Failed("cuFuncSetAttribute", r)
	})
}

// attributesOf are the attributes of a launch with a cluster, in the frame so that they
// are not allocated each time.
func (f *frame) attributesOf(shape *Shape) []driver.LaunchAttribute {
	f.attributes = append(f.attributes[:0], driver.ClusterSize(shape.Cluster))
	if shape.Cooperative {
		f.attributes = append(f.attributes, driver.Cooperative())
	}
	return f.attributes
}

package ptx

// Special is a special register (PTX ISA, "Special Registers").
type Special uint8

// The special registers that are known; vectors have a dimension beside.
const (
	SpecialNone Special = iota
	Tid
	NTid
	CtaID
	NCtaID
	LaneID
	WarpID
	NWarpID
	SmID
	NSmID
	GridID
	LanemaskEq
	LanemaskLe
	LanemaskLt
	LanemaskGe
	LanemaskGt
	Clock
	ClockHi
	Clock64
	GlobalTimer
	GlobalTimerLo
	GlobalTimerHi
	DynamicSmemSize
	TotalSmemSize
	AggrSmemSize
	EnvReg // Dim is the number
	PM     // performance counters; Dim is the number
	PM64
	WarpSize
	ClusterID
	NClusterID
	ClusterCtaID
	ClusterNCtaID
	ClusterCtaRank
	ClusterNCtaRank
	IsExplicitCluster
	CurrentGraphExec
	ReservedSmem // Dim is the number
	numSpecials
)

type specialInfo struct {
	id     Special
	vector bool
	typ    Type
	dim    uint8
}

var specials = func() map[string]specialInfo {
	m := map[string]specialInfo{
		"%tid": {Tid, true, U32, 0}, "%ntid": {NTid, true, U32, 0},
		"%ctaid": {CtaID, true, U32, 0}, "%nctaid": {NCtaID, true, U32, 0},
		"%laneid": {LaneID, false, U32, 0}, "%warpid": {WarpID, false, U32, 0}, "%nwarpid": {NWarpID, false, U32, 0},
		"%smid": {SmID, false, U32, 0}, "%nsmid": {NSmID, false, U32, 0}, "%gridid": {GridID, false, U64, 0},
		"%lanemask_eq": {LanemaskEq, false, U32, 0}, "%lanemask_le": {LanemaskLe, false, U32, 0},
		"%lanemask_lt": {LanemaskLt, false, U32, 0}, "%lanemask_ge": {LanemaskGe, false, U32, 0},
		"%lanemask_gt": {LanemaskGt, false, U32, 0},
		"%clock":       {Clock, false, U32, 0}, "%clock_hi": {ClockHi, false, U32, 0}, "%clock64": {Clock64, false, U64, 0},
		"%globaltimer": {GlobalTimer, false, U64, 0}, "%globaltimer_lo": {GlobalTimerLo, false, U32, 0},
		"%globaltimer_hi":    {GlobalTimerHi, false, U32, 0},
		"%dynamic_smem_size": {DynamicSmemSize, false, U32, 0}, "%total_smem_size": {TotalSmemSize, false, U32, 0},
		"%aggr_smem_size": {AggrSmemSize, false, U32, 0},
		"%clusterid":      {ClusterID, true, U32, 0}, "%nclusterid": {NClusterID, true, U32, 0},
		"%cluster_ctaid": {ClusterCtaID, true, U32, 0}, "%cluster_nctaid": {ClusterNCtaID, true, U32, 0},
		"%cluster_ctarank": {ClusterCtaRank, false, U32, 0}, "%cluster_nctarank": {ClusterNCtaRank, false, U32, 0},
		"%is_explicit_cluster": {IsExplicitCluster, false, Pred, 0},
		"%current_graph_exec":  {CurrentGraphExec, false, U64, 0},
		"WARP_SZ":              {WarpSize, false, U32, 0},
	}
	number := func(prefix, suffix string, n int, id Special, t Type) {
		for i := range n {
			name := prefix + string(rune('0'+i%10)) + suffix
			if i >= 10 {
				name = prefix + string(rune('0'+i/10)) + string(rune('0'+i%10)) + suffix
			}
			m[name] = specialInfo{id, false, t, uint8(i)}
		}
	}
	number("%envreg", "", 32, EnvReg, B32)
	number("%pm", "", 8, PM, U32)
	number("%pm", "_64", 8, PM64, U64)
	number("%reserved_smem_offset_", "", 2, ReservedSmem, B32)
	return m
}()

var specialTypes = func() (t [numSpecials]Type) {
	for _, s := range specials {
		t[s.id] = s.typ
	}
	return t
}()

// Type is the type that the register reads as.
func (s Special) Type() Type {
	if s >= numSpecials {
		return TypeNone
	}
	return specialTypes[s]
}

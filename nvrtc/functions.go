package nvrtc

// function is an index into functions and Library.fn.
type function int

const (
	fnVersion function = iota
	fnGetNumSupportedArchs
	fnGetSupportedArchs
	fnCreateProgram
	fnDestroyProgram
	fnAddNameExpression
	fnCompileProgram
	fnGetProgramLogSize
	fnGetProgramLog
	fnGetPTXSize
	fnGetPTX
	fnGetCUBINSize
	fnGetCUBIN
	fnGetLoweredName
	fnGetLTOIRSize
	fnGetLTOIR
	fnSetFlowCallback

	functionCount
)

// functions are those of NVRTC that this package calls. NVRTC has no versions of one
// function under one name: dlsym is all that is needed.
var functions = [functionCount]struct {
	name  string
	since string // for those that an NVRTC that is accepted may lack
}{
	fnVersion:              {name: "nvrtcVersion"},
	fnGetNumSupportedArchs: {name: "nvrtcGetNumSupportedArchs"},
	fnGetSupportedArchs:    {name: "nvrtcGetSupportedArchs"},
	fnCreateProgram:        {name: "nvrtcCreateProgram"},
	fnDestroyProgram:       {name: "nvrtcDestroyProgram"},
	fnAddNameExpression:    {name: "nvrtcAddNameExpression"},
	fnCompileProgram:       {name: "nvrtcCompileProgram"},
	fnGetProgramLogSize:    {name: "nvrtcGetProgramLogSize"},
	fnGetProgramLog:        {name: "nvrtcGetProgramLog"},
	fnGetPTXSize:           {name: "nvrtcGetPTXSize"},
	fnGetPTX:               {name: "nvrtcGetPTX"},
	fnGetCUBINSize:         {name: "nvrtcGetCUBINSize"},
	fnGetCUBIN:             {name: "nvrtcGetCUBIN"},
	fnGetLoweredName:       {name: "nvrtcGetLoweredName"},
	fnGetLTOIRSize:         {name: "nvrtcGetLTOIRSize", since: "12.0"},
	fnGetLTOIR:             {name: "nvrtcGetLTOIR", since: "12.0"},
	fnSetFlowCallback:      {name: "nvrtcSetFlowCallback", since: "12.8"},
}

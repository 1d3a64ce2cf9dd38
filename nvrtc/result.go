package nvrtc

import "github.com/purecuda/purecuda/internal/status"

// Result is what a function of NVRTC returns.
type Result int32

// The results, by their names in nvrtc.h.
// https://docs.nvidia.com/cuda/nvrtc/index.html#error-handling
const (
	Success                                 Result = 0
	ResultOutOfMemory                       Result = 1
	ResultProgramCreationFailure            Result = 2
	ResultInvalidInput                      Result = 3
	ResultInvalidProgram                    Result = 4
	ResultInvalidOption                     Result = 5
	ResultCompilation                       Result = 6
	ResultBuiltinOperationFailure           Result = 7
	ResultNoNameExpressionsAfterCompilation Result = 8
	ResultNoLoweredNamesBeforeCompilation   Result = 9
	ResultNameExpressionNotValid            Result = 10
	ResultInternalError                     Result = 11
	ResultTimeFileWriteFailed               Result = 12
	ResultNoPCHCreateAttempted              Result = 13
	ResultPCHCreateHeapExhausted            Result = 14
	ResultPCHCreate                         Result = 15
	ResultCancelled                         Result = 16
	ResultTimeTraceFileWriteFailed          Result = 17

	// ResultSymbolMissing is returned by methods of [API] whose function this NVRTC
	// does not have. It is not a code of NVRTC.
	ResultSymbolMissing Result = status.SymbolMissing
	// ResultImpossibleValue is returned by methods of [*Library] where NVRTC reported success
	// with a value that cannot be true, or returned a result that no NVRTC has. It is not a
	// code of NVRTC.
	ResultImpossibleValue Result = status.ImpossibleValue
)

// results are the names in nvrtc.h and what they mean, in our words.
var results = status.Of("NVRTC", "NVRTC_ERROR_", "", map[Result][2]string{
	Success:                                 {"NVRTC_SUCCESS", "success"},
	ResultOutOfMemory:                       {"NVRTC_ERROR_OUT_OF_MEMORY", "the host has no memory left"},
	ResultProgramCreationFailure:            {"NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "the program could not be created"},
	ResultInvalidInput:                      {"NVRTC_ERROR_INVALID_INPUT", "an argument is not valid"},
	ResultInvalidProgram:                    {"NVRTC_ERROR_INVALID_PROGRAM", "there is no such program"},
	ResultInvalidOption:                     {"NVRTC_ERROR_INVALID_OPTION", "this version of NVRTC does not accept an option"},
	ResultCompilation:                       {"NVRTC_ERROR_COMPILATION", "the source does not compile"},
	ResultBuiltinOperationFailure:           {"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "libnvrtc-builtins of the same version is missing"},
	ResultNoNameExpressionsAfterCompilation: {"NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION", "name expressions come before compiling"},
	ResultNoLoweredNamesBeforeCompilation:   {"NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "lowered names come after compiling"},
	ResultNameExpressionNotValid:            {"NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "the name expression was not asked for"},
	ResultInternalError:                     {"NVRTC_ERROR_INTERNAL_ERROR", "an error within NVRTC"},
	ResultTimeFileWriteFailed:               {"NVRTC_ERROR_TIME_FILE_WRITE_FAILED", "the file of --time could not be written"},
	ResultNoPCHCreateAttempted:              {"NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED", "no precompiled header was asked for"},
	ResultPCHCreateHeapExhausted:            {"NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED", "the heap for precompiled headers is too small"},
	ResultPCHCreate:                         {"NVRTC_ERROR_PCH_CREATE", "the precompiled header could not be made"},
	ResultCancelled:                         {"NVRTC_ERROR_CANCELLED", "the compile was cancelled"},
	ResultTimeTraceFileWriteFailed:          {"NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED", "the file of --fdevice-time-trace could not be written"},
})

// Name returns the name of the result in nvrtc.h. It needs no library.
func (r Result) Name() string { return results.Name(r) }

// Text says in a few words what the result means.
func (r Result) Text() string { return results.Text(r) }

func (r Result) String() string { return results.String(r) }

// Error makes a Result a target for errors.Is: errors.Is(err,
// nvrtc.ResultCompilation). Do not return a bare Result as an error: Success would
// be one as well.
func (r Result) Error() string { return results.Error(r) }

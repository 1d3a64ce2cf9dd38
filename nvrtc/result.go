package nvrtc

import "github.com/purecuda/purecuda/internal/library"

// Result is what a function of NVRTC returns.
type Result int32

// The results, by their names in nvrtc.h.
// https://docs.nvidia.com/cuda/nvrtc/index.html#error-handling
const (
	Success                                Result = 0
	ErrorOutOfMemory                       Result = 1
	ErrorProgramCreationFailure            Result = 2
	ErrorInvalidInput                      Result = 3
	ErrorInvalidProgram                    Result = 4
	ErrorInvalidOption                     Result = 5
	ErrorCompilation                       Result = 6
	ErrorBuiltinOperationFailure           Result = 7
	ErrorNoNameExpressionsAfterCompilation Result = 8
	ErrorNoLoweredNamesBeforeCompilation   Result = 9
	ErrorNameExpressionNotValid            Result = 10
	ErrorInternalError                     Result = 11
	ErrorTimeFileWriteFailed               Result = 12
	ErrorNoPCHCreateAttempted              Result = 13
	ErrorPCHCreateHeapExhausted            Result = 14
	ErrorPCHCreate                         Result = 15
	ErrorCancelled                         Result = 16
	ErrorTimeTraceFileWriteFailed          Result = 17

	// ErrorSymbolMissing is returned by methods of [API] whose function this NVRTC
	// does not have. It is not a code of NVRTC.
	ErrorSymbolMissing Result = -1
	// ErrorImpossibleValue is returned by methods of [*Library] where NVRTC reported success
	// with a value that cannot be true, or returned a result that no NVRTC has. It is not a
	// code of NVRTC.
	ErrorImpossibleValue Result = -2
)

// results are the names in nvrtc.h and what they mean, in our words.
var results = library.Results[Result]{Prefix: "NVRTC_ERROR_", Known: map[Result][2]string{
	Success:                                {"NVRTC_SUCCESS", "success"},
	ErrorOutOfMemory:                       {"NVRTC_ERROR_OUT_OF_MEMORY", "the host has no memory left"},
	ErrorProgramCreationFailure:            {"NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "the program could not be created"},
	ErrorInvalidInput:                      {"NVRTC_ERROR_INVALID_INPUT", "an argument is not valid"},
	ErrorInvalidProgram:                    {"NVRTC_ERROR_INVALID_PROGRAM", "there is no such program"},
	ErrorInvalidOption:                     {"NVRTC_ERROR_INVALID_OPTION", "this version of NVRTC does not accept an option"},
	ErrorCompilation:                       {"NVRTC_ERROR_COMPILATION", "the source does not compile"},
	ErrorBuiltinOperationFailure:           {"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "libnvrtc-builtins of the same version is missing"},
	ErrorNoNameExpressionsAfterCompilation: {"NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION", "name expressions come before compiling"},
	ErrorNoLoweredNamesBeforeCompilation:   {"NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "lowered names come after compiling"},
	ErrorNameExpressionNotValid:            {"NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "the name expression was not asked for"},
	ErrorInternalError:                     {"NVRTC_ERROR_INTERNAL_ERROR", "an error within NVRTC"},
	ErrorTimeFileWriteFailed:               {"NVRTC_ERROR_TIME_FILE_WRITE_FAILED", "the file of --time could not be written"},
	ErrorNoPCHCreateAttempted:              {"NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED", "no precompiled header was asked for"},
	ErrorPCHCreateHeapExhausted:            {"NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED", "the heap for precompiled headers is too small"},
	ErrorPCHCreate:                         {"NVRTC_ERROR_PCH_CREATE", "the precompiled header could not be made"},
	ErrorCancelled:                         {"NVRTC_ERROR_CANCELLED", "the compile was cancelled"},
	ErrorTimeTraceFileWriteFailed:          {"NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED", "the file of --fdevice-time-trace could not be written"},
	ErrorSymbolMissing:                     {"symbol missing", "this NVRTC does not have the function"},
	ErrorImpossibleValue:                   {"impossible value", "NVRTC returned what cannot be true"},
}}

// Name returns the name of the result in nvrtc.h. It needs no library.
func (r Result) Name() string { return results.Name(r) }

// Text says in a few words what the result means.
func (r Result) Text() string { return results.Text(r) }

func (r Result) String() string { return results.String(r) }

// Error makes a Result a target for errors.Is: errors.Is(err,
// nvrtc.ErrorCompilation). Do not return a bare Result as an error: Success would
// be one as well.
func (r Result) Error() string { return results.Error(r) }

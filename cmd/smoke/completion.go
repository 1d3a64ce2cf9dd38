package main

import (
	"context"
	"io"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
)

// completionFlag asks for what can follow the arguments before it, a line each: the word, a colon and what it is.
const completionFlag = "--generate-shell-completion"

// completionCommand prints scripts for shells, which ask smoke itself what can follow.
func (a *app) completionCommand() *cli.Command {
	cmd := &cli.Command{
		Name: "completion", Usage: "print a script that completes commands and flags in a shell",
		UsageText: "smoke completion bash|zsh|fish|pwsh",
		Description: `In the file that the shell reads at its start:

  source <(smoke completion bash)    # ~/.bashrc
  source <(smoke completion zsh)     # ~/.zshrc

or once:

  smoke completion fish > ~/.config/fish/completions/smoke.fish
  smoke completion pwsh > smoke.ps1`,
		Action: func(_ context.Context, cmd *cli.Command) error {
			if len(cmd.Args) > 0 {
				return unknownCommand(cmd, cmd.First())
			}
			return usageError("name a shell: bash, zsh, fish or pwsh")
		},
	}
	for _, script := range completionScripts {
		cmd.Commands = append(cmd.Commands, &cli.Command{
			Name: script.shell, Usage: "print the script for " + script.shell,
			Action: func(_ context.Context, cmd *cli.Command) error {
				err := refuse(cmd)
				if err == nil {
					_, _ = io.WriteString(a.stdout, script.text) // stdout keeps the error
				}
				return err
			},
		})
	}
	return cmd
}

var completionScripts = []struct{ shell, text string }{
	{"bash", `__smoke_bash_autocomplete() {
  local current=${COMP_WORDS[COMP_CWORD]} line words offered=()
  words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  words[0]=${words[0]/#\~/$HOME}
  if [[ $current == -* ]]; then words+=("$current"); fi
  while IFS= read -r line; do
    offered+=("${line%%:*}")
  done < <("${words[@]}" ` + completionFlag + ` 2>/dev/null)
  COMPREPLY=($(compgen -W "${offered[*]}" -- "$current"))
}
complete -o bashdefault -o default -F __smoke_bash_autocomplete smoke
`},
	{"zsh", `#compdef smoke
_smoke() {
  local -a before offered
  before=("${words[@]:0:$((CURRENT - 1))}")
  if [[ ${words[CURRENT]} == -* ]]; then before+=("${words[CURRENT]}"); fi
  offered=("${(@f)$("${before[@]}" ` + completionFlag + ` 2>/dev/null)}")
  if [[ -n ${offered[1]} ]]; then
    _describe values offered
  else
    _files
  fi
}
compdef _smoke smoke
if [[ ${funcstack[1]} == _smoke ]]; then _smoke; fi
`},
	{"fish", `function __smoke_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if string match -q -- "-*" $current
        set -a words $current
    end
    set -l offered ($words[1] $words[2..-1] ` + completionFlag + ` 2>/dev/null)
    if test (count $offered) -eq 0
        __fish_complete_path $current
        return
    end
    for line in $offered
        string replace ':' \t -- $line
    end
end
complete -c smoke -e
complete -c smoke -f -a '(__smoke_complete)'
`},
	{"pwsh", `Register-ArgumentCompleter -Native -CommandName smoke -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object { "$_" })
    if ($wordToComplete -and -not $wordToComplete.StartsWith('-')) {
        $words = @($words | Select-Object -SkipLast 1)
    }
    $rest = @($words | Select-Object -Skip 1) + '` + completionFlag + `'
    & $words[0] @rest 2>$null | Where-Object { $_ -like "$wordToComplete*" } | ForEach-Object {
        $word, $what = $_ -split ':', 2
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', "$what ")
    }
}
`},
}

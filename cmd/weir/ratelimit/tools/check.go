package tools

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/checkcmd"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/ratelimit"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// Check is ratelimit_config_check. Its error is a terminal.Exit: No if the files are wrong, Failed if a flag is.
func Check(arguments []string, out terminal.Output) error {
	flags := flag.NewFlagSet("ratelimit_config_check", flag.ContinueOnError)
	dir := flags.String("config_dir", "", "`DIRECTORY` of descriptor files")
	merge := flags.Bool("merge_domain_configs", false, "let several files configure one domain")
	if more, err := parse(flags, arguments, out); !more {
		return err
	}
	files, err := ratelimit.ReadFiles(config.Process())
	if err != nil {
		return err
	}
	files.MergeDomains = *merge
	fmt.Fprintf(out.Out, "checking rate limit configs in %q\n", *dir)
	entries, err := os.ReadDir(*dir)
	var loaded *descriptors.Config
	var problems yaml.Problems
	if visible := func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") }; slices.ContainsFunc(entries, visible) {
		loaded, problems, err = file.Load(*dir, files.Options())
	}
	switch {
	case err != nil:
		fmt.Fprintf(out.Out, "error opening directory: %v\n", err)
		return terminal.No
	case !checkcmd.Report(out.Out, *dir, problems):
		fmt.Fprintln(out.Out, "error loading rate limit configs: they are listed above")
		return terminal.No
	case loaded != nil: // there may be no files: every request is OK then
		if err := checkcmd.List(out.Out, loaded); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out.Out, "all rate limit configs ok")
	return err
}

// Package diff compares rule sets and prints them as nft text: the one that the
// running kube-vmap wants, the one of a folder of manifests, and, for
// bundles, the one that the kernel holds.
//
//	command           wanted                        held
//	diff              running process (/drift)      kernel
//	diff --manifests  manifests and flags           kernel
//	render            running process (/rules)
//	render --manifests    manifests and flags
//
// [WriteDrift], [WriteRules] and [WriteKernel] are the half that runs in the process:
// it serves their text on its status socket.
package diff

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/inspect/schema"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/source/addresses"
)

// NewCommand returns kube-vmap diff.
func NewCommand() *cobra.Command {
	flags := config.NewFlags()
	var format string
	cmd := &cobra.Command{
		Use:   "diff [--manifests DIR] [FLAGS]",
		Short: "Show how the kernel differs from the wanted rule set",
		Long: `Compare the rule set in the kernel with the one that the running kube-vmap wants,
or, with --manifests, with the one for a folder of manifests and the proxy's
flags; this works without a running kube-vmap. Each line is an element, rule, chain or
map: - for what should not be in the kernel, + for what is missing. Nothing is changed.

With -o json, print an object with these lines, which shows whether the answer is whole.

The exit code is 0 if there is no difference, 1 if there is one, and 2 on error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), flags, format, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags.AddToCommand(cmd)
	output.JSON.AddFlag(cmd, &format)
	return exit.TroubleOnError(cmd)
}

func run(ctx context.Context, flags *config.Flags, format string, stdout, stderr io.Writer) error {
	if err := output.JSON.Check(format); err != nil {
		return err
	}
	c, err := ReadOnlyConfig(flags)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if c.Manifests == "" {
		err = client.Copy(ctx, c.StatusSocket, client.PathDrift, &text)
	} else {
		err = diffManifests(c, &text, stderr)
	}
	if err == nil {
		err = write(stdout, text.String(), format)
	}
	if err != nil || text.Len() == 0 {
		return err
	}
	if c.Manifests != "" {
		printUnresponsive(ctx, c, stderr)
	}
	return &exit.Error{Code: 1}
}

func write(w io.Writer, text, format string) error {
	if format == "json" {
		lines := strings.Split(text, "\n")[:strings.Count(text, "\n")]
		return output.Write(w, format, schema.Difference{Schema: schema.OfDifference, Lines: lines})
	}
	_, err := io.WriteString(w, output.CleanText(text)) // names of other programs' chains and sets
	return err
}

// printUnresponsive says if the running kube-vmap may avoid endpoints that no manifest excludes.
func printUnresponsive(ctx context.Context, c *config.Config, stderr io.Writer) {
	d, err := client.Client{Socket: c.StatusSocket}.Get(ctx, nodestatus.Query{Health: true})
	if err == nil && d.Health != nil && d.Health.PassiveHealth != nil && d.Health.PassiveHealth.Endpoints > 0 {
		_, _ = fmt.Fprintf(stderr, "kube-vmap: the running kube-vmap has found %s, which may explain the difference: "+
			"kube-vmap problems lists them\n",
			nodestatus.Plural(d.Health.PassiveHealth.Endpoints, "unresponsive endpoint"))
	}
}

// ReadOnlyConfig returns the configuration of a command that changes nothing. It
// refuses the proxy's flags that would.
func ReadOnlyConfig(flags *config.Flags) (*config.Config, error) {
	c, err := flags.Config()
	if err != nil {
		return nil, err
	}
	for flag, given := range map[string]bool{
		"--cleanup": c.Cleanup, "--init-only": c.InitOnly, "--write-config-to": c.WriteConfigTo != "",
	} {
		if given {
			return nil, fmt.Errorf("%s: this command changes nothing; give the flag to kube-vmap itself", flag)
		}
	}
	return c, nil
}

func diffManifests(c *config.Config, w, stderr io.Writer) error {
	loop, events, problems, err := loadManifests(c)
	if err != nil {
		return err
	}
	if err := printProblems(problems, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "kube-vmap:", err)
	}
	interfaces, err := addresses.Read()
	if err != nil {
		return fmt.Errorf("read the addresses of the node: %w", err)
	}
	return node.WithKernel(func(k *kernel.Kernel) error {
		if err := node.DropUnsupported(k, &loop.Rules); err != nil {
			return err
		}
		tables, err := k.Read()
		if err != nil {
			return fmt.Errorf("read the kernel: %w", err)
		}
		return sync.Compare(loop, events, interfaces, tables).Differences(w)
	})
}

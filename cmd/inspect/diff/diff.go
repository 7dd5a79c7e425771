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
	"errors"
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
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/source/addresses"
	"kube-vmap/sync/source/manifests"
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
		err = client.Client{Socket: c.StatusSocket}.Copy(ctx, client.PathDrift, &text)
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

// NewRenderCommand returns kube-vmap render.
func NewRenderCommand() *cobra.Command {
	flags := config.NewFlags()
	cmd := &cobra.Command{
		Use:   "render [--manifests DIR] [FLAGS]",
		Short: "Print a rule set as nft text",
		Long: `Print the rule set that the running kube-vmap wants, as text for "nft -f"; or, with
--manifests, the one for a folder of manifests and the proxy's flags. Objects
that cannot be programmed are skipped and printed on stderr; the exit code is then 1.
Flags that do not shape the rule set have no effect.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := ReadOnlyConfig(flags)
			switch {
			case err != nil:
				return err
			case c.Manifests != "":
				return renderManifests(c, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return client.Client{Socket: c.StatusSocket}.Copy(cmd.Context(), client.PathRules, cmd.OutOrStdout())
		},
	}
	flags.AddToCommand(cmd)
	return cmd
}

func renderManifests(c *config.Config, stdout, stderr io.Writer) error {
	loop, events, problems, err := loadManifests(c)
	if err != nil {
		return err
	}
	rules, conflicts := sync.Build(loop, events)
	for _, c := range conflicts {
		problems = append(problems, fmt.Errorf("%s: held by %s, not given to %s", c.Match, c.Winner, c.Loser))
	}
	if err := rules.Render(stdout); err != nil {
		return fmt.Errorf("print the rule set: %w", err)
	}
	return printProblems(problems, stderr)
}

// RenderKernel prints what the kernel holds. The running process knows its own rules;
// without one, or if it does not respond, the rules of the defaults serve to recognize them.
func RenderKernel(ctx context.Context, from client.Client, w io.Writer) error {
	err := from.Copy(ctx, client.PathKernel, w)
	if errors.Is(err, client.ErrNotRunning) || errors.Is(err, client.ErrUnresponsive) {
		return writeKernel(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}, w)
	}
	return err
}

// loadManifests returns the loop's settings, and the objects and problems of the folder
// that --manifests names. It fails if nothing can be read.
func loadManifests(c *config.Config) (loop sync.Config, events []sync.Event, problems []error, err error) {
	if loop, err = c.Loop(); err != nil {
		return loop, nil, nil, err
	}
	if events, problems = manifests.Load(c.Manifests, loop.NodeName); events == nil {
		err = errors.Join(problems...)
	}
	return loop, events, problems, err
}

// printProblems prints what is wrong with the manifests. It returns an error if objects
// were skipped.
func printProblems(problems []error, stderr io.Writer) error {
	skipped := 0
	for _, p := range problems {
		_, _ = fmt.Fprintln(stderr, p)
		var m *manifests.Error
		if !errors.As(p, &m) || !m.Warning {
			skipped++
		}
	}
	if skipped > 0 {
		return fmt.Errorf("skipped because of errors: %d", skipped)
	}
	return nil
}

func installed(ctx context.Context, loop *sync.Loop) (*nft.Ruleset, int, error) {
	rules, version, err := loop.Ruleset(ctx)
	if err == nil && rules == nil {
		err = errors.New("no rule set is programmed yet; see the last lines of the log, which kube-vmap bundle collects")
	}
	return rules, version, err
}

// WriteRules writes the rule set of a loop.
func WriteRules(ctx context.Context, loop *sync.Loop, w io.Writer) error {
	rules, _, err := installed(ctx, loop)
	if err != nil {
		return err
	}
	return rules.Render(w)
}

// WriteKernel writes what the kernel holds, with the names of a loop's rules.
func WriteKernel(ctx context.Context, loop *sync.Loop, w io.Writer) error {
	rules, _, err := installed(ctx, loop)
	if err != nil {
		return err
	}
	return writeKernel(rules.Config(), w)
}

// writeKernel writes what the kernel holds, with the names of the rules for a
// configuration.
func writeKernel(rules nft.Config, w io.Writer) error {
	return node.WithKernel(func(k *kernel.Kernel) error {
		tables, err := k.Read()
		if err != nil {
			return fmt.Errorf("read the kernel: %w", err)
		}
		if addrs, err := addresses.Read(); err == nil && rules.PingTo == (nft.Config{}).PingTo { // as of the defaults
			rules.PingTo = tables.PingTo(addrs)
		}
		return tables.Render(w, rules)
	})
}

// driftTries is how often the kernel is read again because the state changed
// meanwhile.
const driftTries = 10

// WriteDrift writes how the kernel differs from the rule set of a loop. A change that is
// committed between the two reads would look like a difference, so the kernel is read
// again until the rule set has the same version before and after.
func WriteDrift(ctx context.Context, loop *sync.Loop, w io.Writer) error {
	return node.WithKernel(func(k *kernel.Kernel) error {
		for range driftTries {
			rules, before, err := installed(ctx, loop)
			if err != nil {
				return err
			}
			tables, err := k.Read()
			if err != nil {
				return fmt.Errorf("read the kernel: %w", err)
			}
			if _, after, err := installed(ctx, loop); err != nil {
				return err
			} else if before == after {
				return rules.Repair(tables).Differences(w)
			}
		}
		return fmt.Errorf("the state changed during each of %d reads of the kernel; try again", driftTries)
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// rootCommand is the proxy itself with its subcommands.
func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "kube-vmap --manifests DIR",
		Short: "A Kubernetes Service proxy for nodes with nftables",
		Long: `kube-vmap runs as the Service proxy of the node it is started on: it reads
Services and EndpointSlices and keeps nftables as they say, one netlink
transaction for each change. Rules stay when it ends; "kube-vmap cleanup"
removes them.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true, // run prints them, in one line
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return proxy(cmd.Context(), &o, stderr)
		},
	}
	o.add(root.Flags())
	o.addLogging(root.Flags())
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(renderCommand(stdout, stderr), cleanupCommand(), versionCommand(stdout))
	return root
}

func renderCommand(stdout, stderr io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "render --manifests DIR",
		Short: "Print the rule set as nft text, without touching the kernel",
		Long: `Print the rule set that the manifests lead to, as text for "nft -f". Objects
that cannot be programmed are left out and named on stderr; the exit code is
then 1.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return render(&o, stdout, stderr) },
	}
	o.add(cmd.Flags())
	return cmd
}

func cleanupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Remove the rule set from the kernel",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return cleanup() },
	}
}

func versionCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(stdout, "kube-vmap", version)
			return err
		},
	}
}

// proxy runs until the context ends.
func proxy(ctx context.Context, o *options, stderr io.Writer) (err error) {
	config, err := o.config()
	if err != nil {
		return err
	}
	log, err := o.logger(stderr)
	if err != nil {
		return err
	}
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if err := k.Probe(config.Rules); err != nil {
		return err
	}
	log.Info("starting", "version", version, "node", config.NodeName, "manifests", o.manifests)
	if o.clusterCIDR == "" && !o.masqueradeAll {
		log.Warn("without --cluster-cidr, connections to ClusterIPs from outside the pods keep their source address")
	}
	loop := sync.NewLoop(config, sync.NewManifests(o.manifests, config.NodeName, log), k, log)
	err = loop.Run(ctx)
	log.Info("stopped; the rules stay")
	return err
}

// render prints what the manifests lead to.
func render(o *options, stdout, stderr io.Writer) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	events, problems := sync.Load(o.manifests, config.NodeName)
	if events == nil {
		return errors.Join(problems...)
	}
	rules, conflicts := sync.Build(config, events)
	for _, c := range conflicts {
		problems = append(problems, fmt.Errorf("%s: held by %s, not given to %s, which is younger", c.Match, c.Winner, c.Loser))
	}
	if err := rules.Render(stdout); err != nil {
		return fmt.Errorf("print the rule set: %w", err)
	}
	return report(problems, stderr)
}

// report prints what is wrong with the manifests and returns an error if
// anything had to be left out.
func report(problems []error, stderr io.Writer) error {
	leftOut := 0
	for _, p := range problems {
		_, _ = fmt.Fprintln(stderr, p) // there is no other place to say it
		var m *sync.ManifestError
		if !errors.As(p, &m) || !m.Warning {
			leftOut++
		}
	}
	if leftOut > 0 {
		return fmt.Errorf("%d things were left out", leftOut)
	}
	return nil
}

// cleanup removes our tables, if there are any. It does not look first, so that
// nothing that somebody did to them can keep them.
func cleanup() (err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	for _, f := range model.Families {
		_, e := k.Apply(nft.Batch{nft.DeleteTable{Family: f}})
		if !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/kube-vmap/config"
)

func getCommand(stdout, stderr io.Writer) *cobra.Command {
	var o get.Options
	var socket string
	var fromKernel bool
	cmd := &cobra.Command{
		Use:   "get services|endpoints|frontends [NAME...]",
		Short: "Show what this node programs, as kubectl shows objects",
		Long: `Show what this node programs for Services, endpoints or frontends (addresses and
ports that clients ask), by the kube-vmap that runs here: on the node, or in its
pod. If none does, what the kernel's tables hold is shown, read-only.

  services   svc   ENDPOINTS: addresses that get connections / in EndpointSlices; one
                   that serves several ports counts once.
                   STATUS: OK, NoEndpoints (of a port, anywhere), NotLocal (a Local
                   policy, and none on this node), NoPort (endpoints, but none with
                   the port), Refused (by the kernel), Conflict (another Service
                   holds an address), Unusable (part of the object), Missing, Open;
                   from the kernel, which cannot tell, Programmed instead of OK.
                   A Service has a problem if its STATUS is none of these two, nor
                   NotLocal or Open, which may be intended and are notices. It counts
                   once, here (--field-selector severity=Problem, or Notice), in
                   kube-vmap top and on the status page.
  endpoints  ep    REASON why one gets no connections: NotReady, Terminating,
                   NotLocal, OtherZones and OtherNodes (hints), NoPort, Duplicate,
                   NotProgrammed; (fallback) serves although it terminates, since
                   none is ready.
  frontends  fe    KIND: ClusterIP, NodePort, ExternalIP, LoadBalancerIP; from the
                   kernel, External for the last two, which are the same to it.
                   VERDICT: Balance, or Reject or Drop if there is no endpoint.

CONNECTIONS are those so far, ACTIVE those that are open now (of UDP, flows that
had packets lately). Services without an address of their own (headless,
ExternalName) need no proxy, and are not there.

Endpoints and frontends are named by their Service, or by their address, with or
without port and protocol: 10.96.0.10, 10.96.0.10:53, [fd00::a]:53/udp, *:30080.
What -o name prints is a name, too.

What --field-selector knows:

` + fieldsHelp(),
		Example: `  kube-vmap get svc -A
  kube-vmap get endpoints -n shop web -o wide
  kube-vmap get fe -A --field-selector spec.verdict!=Balance
  kube-vmap get fe -A 10.96.0.10`,
		ValidArgsFunction: completeGet,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Args = args
			from := get.Ask(socket)
			if fromKernel {
				from = get.Kernel
			}
			return get.Run(cmd.Context(), o, from, stdout, stderr)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Namespace, "namespace", "n", "default", "`namespace` of the Services")
	f.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "those of all namespaces")
	f.StringVarP(&o.Output, "output", "o", "", "`form`: wide, json, yaml or name")
	f.BoolVar(&o.NoHeaders, "no-headers", false, "no line of headings")
	f.StringVar(&o.FieldSelector, "field-selector", "", "`selector` of fields: metadata.name=web,spec.kind!=NodePort")
	f.StringVarP(&o.Labels, "selector", "l", "", "not possible: the proxy keeps no `labels`")
	f.BoolVar(&fromKernel, "kernel", false, "read the kernel's tables, even if a kube-vmap runs")
	f.StringVar(&socket, "status-socket", config.StatusSocket, "`socket` of the kube-vmap to ask")
	return cmd
}

// fieldsHelp lists the fields of each resource, in lines.
func fieldsHelp() string {
	const columns, indent = 80, 13
	var b strings.Builder
	for _, r := range get.Resources() {
		line := fmt.Sprintf("  %-*s", indent-2, r.Plural)
		for i, name := range r.Fields() {
			if i > 0 {
				line += ","
			}
			if len(line)+len(name)+2 > columns {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", indent)
			}
			line += " " + name
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// completeGet completes the resource.
func completeGet(_ *cobra.Command, args []string, _ string) (out []string, d cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, r := range get.Resources() {
			out = append(out, r.Plural)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

package client

import "github.com/spf13/pflag"

// AddSocketFlag adds the flag of commands that ask the running process.
func AddSocketFlag(f *pflag.FlagSet, socket *string) {
	f.StringVar(socket, "status-socket", DefaultSocket, "Unix `socket` of the running kube-vmap")
}

// Plain is a program without purego: what a start is compared with.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Println(os.Args[1:])
	}
}

/* Whether the compiler has sanitizers, and the machine what they need to run. */
int main(void) {
    return 0;
}

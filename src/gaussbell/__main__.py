"""python -m gaussbell"""

from gaussbell.cli import main

main()

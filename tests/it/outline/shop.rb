module Shop
  class Cart < Base
    # Not part of the signature.
    LIMIT = 10
    attr_reader :items
    def initialize(a, b = 1)
      @a = a
    end

    def self.build(*args) = new(*args)

    class << self
      def make; end
    end

    def empty?
    end
  end
end
